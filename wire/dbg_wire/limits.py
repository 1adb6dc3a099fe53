"""All limits of the protocol, each with its unit and reason."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

MAX_CONTROL_BYTES = 1 * MIB
"""Maximum size of a text frame, in bytes. A page of ranks or a screen is far smaller; a longer frame is an error or an
attack."""

MAX_ANSWER_BYTES = MAX_CONTROL_BYTES * 3 // 4 - 4096
"""Maximum size of one rank's answer, in bytes. The text of the largest allowed screen fits. A message with only this
answer fits into the broker's queue for a terminal, which has room for other messages, too."""

MAX_DATA_BYTES = 64 * KIB
"""Maximum payload of one binary frame, in bytes: the most that one read of a pty returns, so no frame is split."""

MAX_FRAME_BYTES = MAX_CONTROL_BYTES
"""Maximum size of a WebSocket message, text or binary, in bytes; a parameter of the WebSocket library."""

MAX_TEXT = 16 * KIB
"""Maximum number of characters of a string in a control message: more than any path, source line or error message."""

MAX_FRAME_NAME = 300
"""Maximum number of characters of a frame's name: more than any qualified function name that people type."""

MAX_ITEMS = 4096
"""Maximum number of elements of a list in a control message: ranks of one page, rows of one screen, ancestors of a
process."""

MAX_ROWS, MAX_COLUMNS = 500, 1000
"""Maximum terminal size, because a screen of this size is 2 MB. No real terminal is larger."""

MIN_ROWS, MIN_COLUMNS = 12, 40
"""Smallest screen that is useful for PuDB; a smaller terminal shows a part of it."""

MAX_VIEWER_BACKLOG = 1 * MIB
"""Maximum number of bytes that the broker queues for one terminal; then it drops the output and repaints the screen."""

MAX_SCREEN_BACKLOG = 64 * KIB
"""Maximum number of bytes of screen output that the broker queues for one terminal: two seconds at 256 kbit/s, and more
than one large screen. Then the screen is repainted, because outdated screens are useless."""

MAX_AGENT_BACKLOG = 1 * MIB
"""Maximum number of bytes that the broker queues for one rank; then it rejects input, because the rank doesn't read."""

MAX_LINK_BACKLOG = 1 * MIB
"""Maximum number of bytes that a rank queues for the broker; then it drops screen output and repaints later."""

MAX_INPUT_PENDING = 64 * KIB
"""Maximum number of bytes typed ahead that a rank or terminal keeps: a large paste. More input is discarded and
reported."""

MAX_LOG = 1 * MIB
"""Maximum number of bytes that a rank keeps of a line debugger's output, for a replay: some ten thousand lines."""

MAX_STACK_FRAMES = 256
"""Maximum number of frames of a stack: a deeper stack is a recursion, and 512 stacks of this size fit into a terminal's
memory."""

MAX_STACK_BYTES = 96 * KIB
"""Maximum size of a stack in a message, in bytes: MAX_STACK_FRAMES frames with paths of 250 characters fit."""

MAX_THREADS_BYTES = 256 * KIB
"""Maximum size of the stacks of all threads in one answer, in bytes. It leaves room for the other parts of the answer:
the main stack and the evidence."""

MAX_THREADS = 64
"""Maximum number of threads of one rank in one answer: a rank with data loaders and communication has about twenty."""

MAX_THREAD_FRAMES = 64
"""Maximum number of frames per thread in an answer about all threads: MAX_THREADS stacks of this size fit, at 60 bytes
per frame."""

MAX_BREAKPOINTS = 100
"""Maximum number of breakpoints that one rank reports: no person sets more."""

MAX_CONDITION = 1000
"""Maximum number of characters of a breakpoint's condition: MAX_BREAKPOINTS conditions of this length, with the longest
paths, take about half of MAX_CONTROL_BYTES."""

MAX_PATH = 4096
"""Maximum number of characters of a path, as in Linux; it also applies to a function's name."""

MAX_COMPLETIONS = 200
"""Maximum number of completions of one word: nobody reads more."""

COMPLETION_SECONDS = 0.15
"""Time for which a terminal waits for completions, in seconds: later completions would appear in the next word."""

MAX_INPUT_PER_SECOND = 256 * KIB
"""Maximum rate of a driver's input to a rank, in bytes per second: faster than any keyboard or paste, slower than a
flood."""

MAX_REPORTED_PER_SECOND = 4 * MIB
"""Maximum rate of a rank's control messages, including answers, in bytes per second. Above this rate the broker reads
the rank's messages only after pauses."""

MAX_VIEWERS_PER_RANK = 64
"""Maximum number of terminals at one rank, driver and watchers: enough for a whole team."""

MAX_CLIENTS = 1024
"""Maximum number of terminals at one broker, because each may need MAX_VIEWER_BACKLOG of its memory."""

MAX_RANKS = 20_000
"""Maximum number of ranks at one broker. With TLS each takes 45 KiB of its memory, all together just below 1 GiB."""

MAX_BROKERS = 64
"""Maximum number of brokers in a list: enough for a million ranks, at MAX_RANKS per broker, with spare entries while
brokers are replaced."""

MAX_ENDED_RANKS = 5_000
"""Maximum number of exited or lost ranks that stay listed; the oldest are removed first."""

ENDED_RANK_SECONDS = 3600.0
"""Time for which an exited or lost rank stays listed, in seconds: longer than a meeting."""

HANDSHAKE_SECONDS = 30.0
"""Timeout for the welcome, in seconds: enough for 256 ranks that connect at once to a busy login node."""

PROBE_ATTENDED_SECONDS = 2.0
"""Seconds between two probes of a rank with a terminal: the terminal's user soon sees that the rank is silent."""

PROBE_IDLE_SECONDS = 20.0
"""Seconds between two probes of a rank without a terminal. The probes take 0.0025 % of one core of the rank."""

SILENT_PROBES = 2
"""Number of unanswered probes after which a rank is unresponsive: a garbage collection may delay one answer."""

CONNECTION_DEAD_SECONDS = 120.0
"""Silence after which a connection is considered dead, in seconds: C code may keep a rank's interpreter busy for a
minute."""

KEEPALIVE_SECONDS = 2
"""Silence after which the kernel sends a TCP keepalive to the peer's kernel, in seconds; no process wakes up for it."""

KEEPALIVE_AGAIN_SECONDS = 1
"""Seconds between unanswered keepalives: several fit into SILENT_SECONDS, because a network may lose some."""

RESEND_SECONDS = 1
"""Maximum TCP retransmission timeout, in seconds, if the kernel has this option (Linux 6.15): a connection resumes
within this time after a short outage. In older kernels the timeout doubles each time, up to two minutes."""

SILENT_SECONDS = 4.5
"""Seconds without an acknowledgement after which a peer is silent. Users see this within six seconds, and a rank
or terminal connects again."""

CLOSE_SECONDS = 1.0
"""Timeout for the closing handshake when a rank exits, in seconds: a debugger must not delay the end of a job."""

MAX_ASK_SECONDS = 600.0
"""Maximum timeout of a question, in seconds."""

NOTICE_SECONDS = 300.0
"""Time between the notice that a stop will end and its end, in seconds: enough to open a laptop."""


def notice_seconds(lease: float) -> float:
    """Return the seconds between the notice and the end of a lease: NOTICE_SECONDS, or a tenth of a short lease."""
    return min(NOTICE_SECONDS, lease / 10)
