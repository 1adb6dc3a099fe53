"""The sources of files that were compiled with calls in them: as they were compiled, since files may be edited later.

The calls are those of stops that the job was started with, and of breakpoints that stand in compiled code.
"""

from __future__ import annotations

compiled_sources: dict[str, bytes] = {}
"""The sources by the absolute paths of their files. A thread that writes here never removes anything."""
