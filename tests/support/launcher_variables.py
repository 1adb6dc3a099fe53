"""The variables of one rank, as each launcher sets them; copied from real launches where the launcher could be run."""

from __future__ import annotations

SRUN = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_TASK_PID": "900",
    "SLURMD_NODENAME": "gpu02",
}
SBATCH_SHELL = {
    "SLURM_JOB_ID": "4711",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_TASK_PID": "900",
    "SLURMD_NODENAME": "gpu01",
}
SALLOC_SHELL = {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "4", "SLURM_JOB_NAME": "interactive"}
TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "ROLE_RANK": "5",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "exp7",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x/exp7_node2abc/attempt_2/1/error.json",
}
STANDALONE = TORCHRUN | {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "41234",
    "TORCHELASTIC_RUN_ID": "0d1e2f30-aaaa-bbbb-cccc-1234567890",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_y/0d1e2f30-aaaa-bbbb-cccc-1234567890_q1_w2e3/attempt_0/1/error.json",
}
ACCELERATE = STANDALONE | {
    "ACCELERATE_MIXED_PRECISION": "no",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_z/none_ab12cd34/attempt_0/1/error.json",
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_NODE_RANK": "7",
    "PMIX_NAMESPACE": "2058813441",
    "PMIX_RANK": "3",
    "PMIX_HOSTNAME": "gpu02",
}
MPICH = {
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
    "PMI_FD": "9",
    "PMI_HOSTNAME": "gpu02",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
}
INTEL = {key: value for key, value in MPICH.items() if key != "PMI_HOSTNAME"} | {"I_MPI_HYDRA_UUID": "bc1d-e8a1"}
RAY = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "NODE_RANK": "0", "MASTER_ADDR": "h1", "MASTER_PORT": "5000"}
DEEPSPEED = RAY | {"CROSS_RANK": "0", "CROSS_SIZE": "1", "LOCAL_SIZE": "2"}
MSRUN = {
    "MS_ROLE": "MS_WORKER",
    "MS_NODE_ID": "3",
    "MS_WORKER_NUM": "8",
    "MS_SCHED_HOST": "h1",
    "MS_SCHED_PORT": "8118",
}
RANK_TABLE = {"RANK_TABLE_FILE": "/x/table.json", "RANK_ID": "3", "RANK_SIZE": "8", "DEVICE_ID": "3"}
JSRUN = {
    "JSM_NAMESPACE_RANK": "7",
    "JSM_NAMESPACE_LOCAL_RANK": "1",
    "JSM_NAMESPACE_SIZE": "12",
    "LSB_JOBID": "88",
    "LSB_JOBINDEX": "0",
}
MVAPICH = {
    "MV2_COMM_WORLD_RANK": "2",
    "MV2_COMM_WORLD_LOCAL_RANK": "0",
    "MV2_COMM_WORLD_SIZE": "4",
    "MPISPAWN_MPIRUN_HOST": "login1",
    "MPISPAWN_MPIRUN_ID": "3141",
}
PALS = {"PALS_RANKID": "9", "PALS_LOCAL_RANKID": "1", "PALS_APID": "f00d-1", "PBS_JOBID": "123[4].pbs01"}
FLUX = {"FLUX_TASK_RANK": "2", "FLUX_TASK_LOCAL_ID": "0", "FLUX_JOB_SIZE": "4", "FLUX_JOB_ID": "ƒ26sWM3k"}
PMIX = {"PMIX_RANK": "2", "PMIX_NAMESPACE": "prte-h1-77@1", "PMIX_HOSTNAME": "h1"}
LIGHTNING = {
    "LOCAL_RANK": "1",
    "NODE_RANK": "0",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29502",
}
ENV = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "fd00::1", "MASTER_PORT": "29501"}
POD = {"JOB_COMPLETION_INDEX": "2", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
EXPLICIT = {"DBG_RANK": "2", "DBG_LOCAL_RANK": "1", "DBG_WORLD_SIZE": "4", "DBG_JOB": "mine", "DBG_HOST": "left"}
