"""What names this host's kernel."""

from __future__ import annotations

from pathlib import Path

from dbg_dial.kernel import kernel_name


def test_a_kernels_name_is_boot_and_namespace() -> None:
    kernel = kernel_name()
    assert kernel is not None
    boot, _, namespace = kernel.partition("/")
    assert len(boot) == 36
    assert namespace == str(Path("/proc/self/ns/pid").readlink()).partition("[")[2].rstrip("]")


def test_kernel_that_hides_its_name_is_nobodys(tmp_path: Path) -> None:
    assert kernel_name(str(tmp_path)) is None
