"""Containers of a pod on this machine: root file system, user, volumes and variables as a kubelet would give them.

A container's root is made of bind mounts of this machine's programs, in a mount namespace of its own; it has no file of
the user that runs the tests. A seccomp profile is not applied.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.manifests import DEPLOY, Document, Image, containers
from tests.support.netns import Host

IMAGE_PREFIX = "/opt/dbg-broker"
"""Where the image has the virtual environment; here it is that of the tests."""

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")

ROOT_IN_ROOT = """
set -e
umask 022
mount --make-rprivate /
root=$1 readonly=$2 user=$3 group=$4 groups=$5
shift 5
mount -t tmpfs -o mode=0755 container "$root"
mkdir -m 1777 "$root/tmp"
while [ "$1" != -- ]; do
    source=$1 target=$root$2 mode=$3
    shift 3
    if [ -d "$source" ]; then mkdir -p "$target"; else mkdir -p "$(dirname "$target")" && : >"$target"; fi
    mount --rbind "$source" "$target"
    [ "$mode" = rw ] || mount -o remount,bind,ro "$target"
done
shift
[ "$readonly" = no ] || mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$group" --groups "$groups" --bounding-set -all --inh-caps -all \
    --no-new-privs -- "$@"
"""
"""Shell code: make the root of a container in an own mount namespace, and start the container's command in it."""


@dataclass
class Node:
    """A machine that runs pods: it has their volumes in ``folder``, and knows the Secrets."""

    folder: Path
    secrets: Mapping[str, Document]
    """The Secrets by their names."""
    claims: dict[str, Path] = field(default_factory=dict)
    made: int = 0

    def command(
        self, host: Host, pod: Document, name: str, image: Image | None, index: int | None = None, *also: str
    ) -> list[str]:
        """Return the command line that runs a container on a host, or ``also`` in a container like it."""
        container = next(one for one in containers(pod) if one["name"] == name)
        own = pod["securityContext"]
        group = own["fsGroup"]
        binds = [(path, path, "ro") for path in (*SYSTEM, *python_paths())]
        binds += [("/proc", "/proc", "rw"), ("/dev", "/dev", "rw"), (sys.prefix, IMAGE_PREFIX, "ro")]
        volumes = {volume["name"]: self._volume(volume, group) for volume in pod.get("volumes", [])}
        for mount in container["volumeMounts"]:
            mode = "ro" if mount.get("readOnly") else "rw"
            binds.append((str(volumes[mount["name"]]), mount["mountPath"], mode))
        # A volume hides what was mounted below it before: a clone below /tmp comes after the volume for /tmp.
        binds.sort(key=lambda bind: Path(bind[1]).parts)
        root = self._new("root")
        argv = also or self._argv(container, image)
        environ = (
            dict(image.environ) if image else {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin:/usr/sbin", "HOME": "/"}
        ) | {each["name"]: self._value(each, index, host) for each in container.get("env", [])}
        argv = tuple(re.sub(r"\$\((\w+)\)", lambda found: environ.get(found[1], found[0]), word) for word in argv)
        if index is not None:
            # Kubernetes itself sets these two.
            environ |= {"JOB_COMPLETION_INDEX": str(index), "KUBERNETES_SERVICE_HOST": "10.96.0.1"}
        readonly = "yes" if container["securityContext"].get("readOnlyRootFilesystem") else "no"
        script = [str(root), readonly, str(own["runAsUser"]), str(own["runAsGroup"]), str(group)]
        script += [word for bind in binds for word in bind]
        variables = [f"{key}={value}" for key, value in environ.items()]
        begun_in = ["--chdir", container["workingDir"]] if "workingDir" in container else []
        inside = ["sh", "-c", ROOT_IN_ROOT, "sh", *script, "--", "env", "-i", *begun_in, *variables, *argv]
        return host.command(inside)

    def _argv(self, container: Document, image: Image | None) -> tuple[str, ...]:
        entrypoint = container.get("command") or (image.entrypoint if image else ())
        default = () if container.get("command") or image is None else image.command
        return (*entrypoint, *container.get("args", default))

    def _value(self, variable: Document, index: int | None, host: Host) -> str:
        if "value" in variable:
            return str(variable["value"])
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            reference = source["secretKeyRef"]
            return str(self.secrets[reference["name"]]["stringData"][reference["key"]])
        if source["fieldRef"]["fieldPath"] == "metadata.name":
            return host.name
        assert source["fieldRef"]["fieldPath"] == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        return str(index)

    def _volume(self, volume: Document, group: int) -> Path:
        """Return the directory of a volume, with the owners and modes that a kubelet gives it."""
        if "secret" in volume:
            return self._secret(volume["secret"], group)
        if "emptyDir" in volume:
            path = self._new("empty")
            path.chmod(0o2777)
            return path
        claim = volume["persistentVolumeClaim"]["claimName"]
        if claim not in self.claims:
            self.claims[claim] = path = self._new("claim")
            os.chown(path, 0, group)
            path.chmod(0o2777)
        return self.claims[claim]

    def _secret(self, secret: Document, group: int) -> Path:
        """Write the keys as a kubelet does: into a directory with a date, to which a link leads."""
        path = self._new("secret")
        dated = path / "..2026_01_01"
        for item in secret["items"]:
            file = dated / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.secrets[secret["secretName"]]["stringData"][item["key"]])
            os.chown(file, 0, group)
            # A group of the pod's own may read what is mounted.
            file.chmod(secret["defaultMode"] | 0o440)
        for one in dated.iterdir():
            (path / one.name).symlink_to(f"..data/{one.name}")
        (path / "..data").symlink_to(dated.name)
        for directory in (path, dated, *(one for one in dated.iterdir() if one.is_dir())):
            directory.chmod(0o755)
        return path

    def _new(self, kind: str) -> Path:
        self.made += 1
        path = self.folder / f"{kind}-{self.made}"
        path.mkdir()
        return path


def python_paths() -> list[str]:
    """Return the directories that Python and our packages need, none inside another one."""
    wanted = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), DEPLOY.parent}
    return [str(path) for path in sorted(wanted) if not any(other in path.parents for other in wanted)]
