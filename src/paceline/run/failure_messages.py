"""What frameworks say when memory has run out, and when they only miss another rank."""

from __future__ import annotations

import re

MEMORY_RAN_OUT = (
    r"out[ _]?of[ _]?memory",  # also in names, such as OutOfMemoryError and CUDA_ERROR_OUT_OF_MEMORY
    r"(not enough|insufficient) memory",
    r"MemoryError",
    r"bad_alloc",
    r"OOM when allocating",
    r"(STATUS\w*|CUFFT)_ALLOC(ATION)?_FAILED",  # of cuDNN, cuBLAS and the like
    # Not just any failure to allocate: it may be of a port or of a stream.
    r"(can't|cannot|could not|unable to|failed to) allocate (\w+ ){0,2}"
    r"(memory|tensor|request for [\d.]|[\d.,]+ ?([KMGT]i?B?\b|bytes))",
    # It is also said of files, disks and messages.
    r"resource[ _]?exhausted(?!.*(no space left|too many open files|message larger|quota))",
)
# Only what frameworks say of each other: a download or a lock may time out as well.
PEER_IS_MISSED = (
    r"gloo/transport/\w+/(pair|buffer|unbound_buffer)\.cc",
    r"Gloo connectFullMesh failed",
    r"timed out waiting \d+ms for (recv|send) operation",
    r"NCCL communicator was aborted",
    r"watchdog caught collective operation timeout",
    r"remote process exited",
    r"ncclRemoteError",
    r"ncclSystemError(?!.*(shared memory segment|no space left))",
    r"socket(Poll|Start)Connect|socketProgress|closed by remote peer(?!.*download)",  # NCCL's own sockets
    r"c10d key-value store .*got error",
    r"Dist\w+Error: .*(wait timeout after|timed out after \d+ seconds waiting for clients)",
    r"Dist\w+Error: .*connection was likely closed",
    r"Dist\w+Error: .*(connection (closed|reset|refused)|broken pipe)",
    r"the client socket has (timed out|failed to connect)",
    r"monitoredBarrier",
    r"^(RuntimeError|DistStoreError): (connection (closed|reset|refused)( by peer)?|broken pipe|socket timeout)\.?$",
    r"^(?!(Value|Type|Key)Error).*(heartbeat timeout|stopped sending heartbeats)",
    r"Barrier timed out\. (Barrier_)?Id:",
    r"RPC to coordination service|remote target (coordination_service|\S*coordination_leader)",
    r"Collective ops is aborted",
    r"^UnavailableError: (Socket closed|failed to connect to all addresses)",
    r"^HorovodInternalError",
    r"^LostPeerError: (rank \d+|other ranks) ",  # of our own exchange between neon's ranks
)


MOST_LETTERS = 20_000  # that are looked at: what matters comes first


def memory_ran_out(text: str) -> bool:
    """Whether an error, or the end of a log, says so."""
    return _MEMORY.search(text[:MOST_LETTERS]) is not None


def misses_a_peer(text: str) -> bool:
    """Whether the error of a rank may only be the echo of what happened to another one."""
    return _PEER.search(text[:MOST_LETTERS]) is not None


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE | re.DOTALL)


_MEMORY, _PEER = _any_of(MEMORY_RAN_OUT), _any_of(PEER_IS_MISSED)
