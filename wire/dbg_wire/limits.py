"""Every bound of the protocol, in one place, each with its unit and its reason."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

MAX_CONTROL_BYTES = 1 * MIB
"""Bytes of one text frame. A page of ranks or a screen of text is far smaller; a longer frame is an error or attack."""

MAX_ANSWER_BYTES = MAX_CONTROL_BYTES * 3 // 4 - 4096
"""Bytes of one rank's answer: the largest screen that is accepted fits, and a page with nothing else has room beside
others in the terminal's queue."""

MAX_DATA_BYTES = 64 * KIB
"""Payload bytes of one binary frame: the most that one read of a pty returns, so no frame needs splitting."""

MAX_FRAME_BYTES = MAX_CONTROL_BYTES
"""Bytes of one WebSocket message of either kind, given to the WebSocket library."""

MAX_TEXT = 16 * KIB
"""Characters of one string inside a control message: longer than any path, line of source or error sentence."""

MAX_FRAME_NAME = 300
"""Characters by which people name a frame: longer than the qualified name of any function that people can type."""

MAX_ITEMS = 4096
"""Elements of one list inside a control message: ranks of one page, rows of one screen, ancestors of a process."""

MAX_ROWS, MAX_COLUMNS = 500, 1000
"""Largest terminal size that is accepted; a screen of that size is 2 MB, and no real terminal is larger."""

MIN_ROWS, MIN_COLUMNS = 12, 40
"""Smallest screen that PuDB draws usefully; a smaller terminal sees a part of this screen."""

MAX_VIEWER_BACKLOG = 1 * MIB
"""Bytes that may wait in the broker for one terminal; beyond it the output is dropped and the screen repainted."""

MAX_SCREEN_BACKLOG = 64 * KIB
"""Bytes of a screen that may wait in the broker for one terminal: two seconds of a line of 256 kbit/s. Beyond it the
screen is repainted as it is then, since nobody wants to see what it was; a large screen still fits."""

MAX_AGENT_BACKLOG = 1 * MIB
"""Bytes that may wait in the broker for one rank; beyond it input is refused, since the rank doesn't read."""

MAX_LINK_BACKLOG = 1 * MIB
"""Bytes that may wait in a rank for the broker; beyond it screen output is dropped and repainted later."""

MAX_INPUT_PENDING = 64 * KIB
"""Bytes typed ahead that a rank or terminal keeps: a large paste; beyond it input is discarded and reported."""

MAX_LOG = 1 * MIB
"""Bytes of a line debugger's output that its rank keeps for a terminal that comes back: some ten thousand lines."""

MAX_STACK_FRAMES = 256
"""Frames of one stack: a deeper stack recurses, and 512 stacks of this size still fit into a terminal's memory."""

MAX_STACK_BYTES = 96 * KIB
"""Bytes of one stack in a message: MAX_STACK_FRAMES frames with paths of 250 characters fit."""

MAX_THREADS_BYTES = 256 * KIB
"""Bytes of the stacks of all threads in one answer, which may hold a stack and evidence beside them."""

MAX_THREADS = 64
"""Threads of one rank in one answer: a rank with data loaders and communication has some twenty."""

MAX_THREAD_FRAMES = 64
"""Frames of one of several threads: MAX_THREADS stacks of this size, at 60 bytes a frame, fit into one answer."""

MAX_BREAKPOINTS = 100
"""Breakpoints that one rank reports: no person sets more."""

MAX_CONDITION = 1000
"""Characters of a breakpoint's condition: MAX_BREAKPOINTS conditions of this length, with the longest paths, are about
half of MAX_CONTROL_BYTES."""

MAX_PATH = 4096
"""Characters of a path, Linux's own bound, and of a function's name."""

MAX_COMPLETIONS = 200
"""Completions of one word: more than anybody reads."""

COMPLETION_SECONDS = 0.15
"""Seconds that a terminal waits for completions: later ones would jump into the next word."""

MAX_INPUT_PER_SECOND = 256 * KIB
"""Bytes a driver may send a rank in a second: faster than any keyboard or paste, slower than a flood."""

MAX_REPORTED_PER_SECOND = 4 * MIB
"""Bytes of control messages that a rank may send in a second, its answers to questions included; beyond it the broker
reads on later."""

MAX_VIEWERS_PER_RANK = 64
"""Terminals on one rank, driver and watchers together: enough for a whole team."""

MAX_CLIENTS = 1024
"""Terminals on one broker: each costs at most MAX_VIEWER_BACKLOG."""

MAX_RANKS = 20_000
"""Ranks connected to one broker; at 45 KiB each under TLS just below 1 GiB."""

MAX_BROKERS = 64
"""Brokers that one names: a million ranks at MAX_RANKS each, and room for those that end while others begin."""

MAX_ENDED_RANKS = 5_000
"""Exited or lost ranks that stay listed; the oldest are removed first."""

ENDED_RANK_SECONDS = 3600.0
"""Seconds for which an exited or lost rank stays listed: long enough to come back from a meeting."""

HANDSHAKE_SECONDS = 30.0
"""Seconds for which a peer waits for the welcome: enough for 256 ranks that arrive at once on a busy login node."""

PROBE_ATTENDED_SECONDS = 2.0
"""Seconds between two probes of a rank with a terminal: how fresh its "silent since" is."""

PROBE_IDLE_SECONDS = 20.0
"""Seconds between two probes of a rank without a terminal, which cost 0.0025 % of its core."""

SILENT_PROBES = 2
"""Unanswered probes after which a rank is unresponsive: one may be late behind a long garbage collection."""

CONNECTION_DEAD_SECONDS = 120.0
"""Seconds of a silent connection after which it counts as dead: a rank may hold the interpreter for a minute."""

KEEPALIVE_SECONDS = 2
"""Seconds without a byte after which a kernel asks the peer's kernel whether it is there; no process wakes up."""

KEEPALIVE_AGAIN_SECONDS = 1
"""Seconds between two such questions without an answer: several fit into SILENT_SECONDS, as a network may lose some."""

RESEND_SECONDS = 1
"""Longest pause before a kernel sends unacknowledged bytes again, if the kernel has this option (Linux 6.15): after a
short cut a connection goes on within this time. In other kernels the pause doubles each time, up to two minutes."""

SILENT_SECONDS = 4.5
"""Seconds without an acknowledgement after which a peer is silent: users see it within six, and a new connection is
tried."""

CLOSE_SECONDS = 1.0
"""Seconds for a closing handshake when a rank exits: a debugger must not delay the end of a job."""

MAX_ASK_SECONDS = 600.0
"""Longest deadline a question may have."""

NOTICE_SECONDS = 300.0
"""Seconds before a stop ends by itself at which that is told: enough to open a laptop."""


def notice_seconds(lease: float) -> float:
    """Return how many seconds before its end a lease is told to end: NOTICE_SECONDS, or a tenth of a short one."""
    return min(NOTICE_SECONDS, lease / 10)
