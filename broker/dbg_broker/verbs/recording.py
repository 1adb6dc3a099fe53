"""The recorder of a broker that serves with --record."""

from __future__ import annotations

from pathlib import Path

from dbg_broker.hub.state import Hub
from dbg_broker.recording.directory import RecordingDirectory
from dbg_broker.recording.recorder import Recorder
from dbg_broker.recording.writer import RecordingWriter
from dbg_broker.settings import RecordSettings


def start_recorder(settings: RecordSettings, hub: Hub) -> Recorder:
    """Return what records the stops of a hub, with its thread begun."""
    return Recorder(
        RecordingWriter(RecordingDirectory(Path(settings.directory), settings.max_bytes)),
        clock=hub.timers.clock,
        schedule=hub.timers.schedule,
        want_repaint=hub.ranks.want_repaint,
        records_input=settings.records_input,
    )
