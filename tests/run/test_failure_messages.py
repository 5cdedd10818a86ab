"""What frameworks really say when they fail, and what is made of it.

The texts are those of the frameworks' own sources and binaries, and of reports in their public issue trackers; numbers
and addresses are examples.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.run.diagnosis import WorkerEnding, judge
from paceline.run.worker import LOG_FILE
from tests.factories.events import block, entered, failed, written

TRAINING = (entered("start"), entered("build"), entered("train"), block("train", 1.0, 10))
PAIR = "[../third_party/gloo/gloo/transport/tcp/pair.cc"
BUFFER = "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc"
NCCL = "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77"
WATCHDOG = (
    "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=10, OpType=BROADCAST, Timeout(ms)=1800000)"
    " ran for 1805457 milliseconds before timing out."
)
SYSTEM = "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."
REMOTE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
STORE = "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0'"
TASK = "/job:jax_worker/replica:0/task:1"
GRPC = "Additional GRPC error information from remote target coordination_service while calling"

OUT_OF_MEMORY = [
    # PyTorch
    ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB"),
    ("RuntimeError", "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    (
        "RuntimeError",
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried",
    ),
    ("RuntimeError", "[enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory: you tried to"),
    ("RuntimeError", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ("RuntimeError", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ("RuntimeError", "cuFFT error: CUFFT_ALLOC_FAILED"),
    ("RuntimeError", "HIP out of memory. Tried to allocate 20.00 MiB"),
    ("RuntimeError", "std::bad_alloc"),
    (
        "BackendCompilerFailed",
        "backend='inductor' raised: OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB",
    ),
    # JAX and Keras on it
    ("XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes."),
    ("XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes."),
    ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Failed to allocate request for 6.27GiB (6727663616B) on device ordinal 0"),
    ("RuntimeError", "Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on device ordinal 0"),
    ("XlaRuntimeError", "INTERNAL: XLA:TPU compile permanent error. Ran out of memory in memory space hbm."),
    ("XlaRuntimeError", "INTERNAL: Failed call to cudnnCreate: CUDNN_STATUS_ALLOC_FAILED"),
    # TensorFlow, Keras on it, tensorpack
    (
        "ResourceExhaustedError",
        "{{function_node __wrapped__Conv2D_device_/job:localhost/replica:0/task:0/device:GPU:0}} OOM when allocating "
        "tensor with shape[128,3,8,128] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator "
        "GPU_0_bfc [Op:Conv2D]",
    ),
    ("ResourceExhaustedError", "failed to allocate memory [Op:AddV2]"),
    ("ResourceExhaustedError", "SameWorkerRecvDone unable to allocate output tensor. Key: /job:localhost/replica:0"),
    ("InternalError", "CUDA runtime implicit initialization on GPU:0 failed. Status: out of memory"),
    ("InternalError", "failed to allocate 2.00G (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY"),
    ("UnknownError", "Failed to get convolution algorithm: Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED"),
    ("InternalError", "Blas xGEMM launch failed: failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED"),
    # MXNet and Keras on it
    ("MXNetError", "[11:18:15] src/storage/./pooled_storage_manager.h:157: cudaMalloc failed: out of memory"),
    ("MXNetError", "[16:52:49] gpu_device_storage.h:39: Check failed: e == cudaSuccess CUDA: out of memory"),
    (
        "MXNetError",
        "cudnn_convolution-inl.h:713: Check failed: e == CUDNN_STATUS_SUCCESS cuDNN: CUDNN_STATUS_ALLOC_FAILED",
    ),
    ("MXNetError", "[09:12:01] src/storage/./cpu_device_storage.h:75: Failed to allocate CPU Memory"),
    # neon
    ("MemoryError", "cuMemAlloc failed: out of memory"),
    # Python and NumPy
    ("MemoryError", ""),
    ("_ArrayMemoryError", "Unable to allocate 128. MiB for an array with shape (16777216,) and data type float64"),
    ("OSError", "[Errno 12] Cannot allocate memory"),
]

LOST_PEER = [
    # gloo, below PyTorch and below JAX on processors
    ("RuntimeError", f"{PAIR}:534] Connection closed by peer [127.0.0.1]:10895"),
    ("RuntimeError", f"{PAIR}:589] Read error [192.168.70.92]:25266: Connection reset by peer"),
    ("RuntimeError", f"{PAIR}:553] writev [127.0.0.1]:40151: Broken pipe"),
    ("RuntimeError", f"{PAIR}:154] Application timeout caused pair closure"),
    ("RuntimeError", f"{BUFFER}:81] Timed out waiting 1800000ms for recv operation to complete"),
    ("RuntimeError", "Timed out waiting 300000ms for send operation to complete"),
    ("RuntimeError", "Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] Connection refused"),
    (
        "JaxRuntimeError",
        "INTERNAL: Gloo all-reduce failed: [external/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer",
    ),
    # NCCL
    ("RuntimeError", f"NCCL communicator was aborted on rank 2.  Original reason for failure was: {WATCHDOG}"),
    ("DistBackendError", "NCCL communicator was aborted on rank 1."),
    ("DistBackendError", WATCHDOG),
    ("DistBackendError", f"{NCCL}, remote process exited or there was a network error, NCCL version 2.26.2\n{REMOTE}"),
    ("DistBackendError", f"{NCCL}, unhandled system error, NCCL version 2.25.1\n{SYSTEM}\nLast error:\n"),
    ("DistBackendError", f"NCCL error: unhandled system error\n{SYSTEM} It can be also caused by unexpected exit"),
    ("DistBackendError", f"{NCCL}\nLast error:\nsocketPollConnect: connect returned Connection refused"),
    ("DistBackendError", f"{NCCL}\nLast error:\nsocketProgress: Connection closed by remote peer localhost<33759>"),
    ("DistBackendError", f"{STORE}, but store->get('0') got error: Connection reset by peer"),
    ("JaxRuntimeError", f"INTERNAL: NCCL operation ncclGroupEnd() failed: remote process exited. {REMOTE}"),
    # PyTorch's store
    ("DistStoreError", "wait timeout after 300000ms, keys: /default_pg/0//cpu//0/0"),
    ("DistStoreError", "Socket Timeout"),
    ("DistStoreError", "Timed out after 301 seconds waiting for clients. 1/2 clients joined."),
    ("DistNetworkError", "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown?"),
    (
        "DistNetworkError",
        "The client socket has timed out after 120000ms while trying to connect to (127.0.0.1, 29500).",
    ),
    ("DistNetworkError", "The client socket has failed to connect to any network address of (localhost, 29500)."),
    ("DistNetworkError", "sendBytes failed on SocketImpl(fd=19, addr=[localhost]:41302): Broken pipe"),
    ("RuntimeError", "Socket Timeout"),
    ("RuntimeError", "Connection reset by peer"),
    ("RuntimeError", "Broken pipe"),
    ("RuntimeError", "Rank 0 timed out in monitoredBarrier after 300000 ms."),
    ("RuntimeError", "[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 300000 ms"),
    # JAX's coordination service
    ("XlaRuntimeError", f"UNAVAILABLE: Task {TASK} heartbeat timeout. This indicates that the remote task has failed"),
    ("XlaRuntimeError", f"DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. {TASK}"),
    (
        "JaxRuntimeError",
        "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. This usually",
    ),
    ("JaxRuntimeError", "INTERNAL: The following tasks are unhealthy (stopped sending heartbeats):\n" + TASK),
    (
        "JaxRuntimeError",
        "UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted",
    ),
    ("JaxRuntimeError", f'UNAVAILABLE: {GRPC} PollForError: {{grpc_message:"Socket closed", grpc_status:14}}'),
    # TensorFlow's collectives
    ("UnavailableError", "Collective ops is aborted by: Socket closed\nThe error could be from a previous operation."),
    (
        "UnavailableError",
        "{{node CollectiveReduceV2}} Collective ops is aborted by: failed to connect to all addresses",
    ),
    ("UnavailableError", "Socket closed"),
    ("InternalError", "Collective ops is aborted by: NCCL: remote process exited or there was a network error"),
    # Horovod, which tensorpack and Keras can use
    ("HorovodInternalError", "Horovod has been shut down. This was caused by an exception on one of the ranks or an"),
    # neon's ranks, whose lines are ours
    ("LostPeerError", "rank 2 has closed its line"),
    ("LostPeerError", "rank 0 cannot be reached: [Errno 104] Connection reset by peer"),
    ("LostPeerError", "rank 1 has been silent for 60 s"),
    ("LostPeerError", "other ranks have not called until the ranks had to have met"),
]

OTHER_ERRORS = [
    # of the network, where no rank is missed
    ("URLError", "<urlopen error timed out>"),
    ("TimeoutError", "The read operation timed out"),
    ("RuntimeError", "download of cifar-10-binary.tar.gz from cs.example.org timed out"),
    ("ConnectionError", "HTTPSConnectionPool(host='example.org', port=443): Read timed out. (read timeout=10)"),
    ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
    ("URLError", "<urlopen error [Errno 111] Connection refused>"),
    ("RemoteDisconnected", "Remote end closed connection without response"),
    ("Timeout", "The file lock '/root/.cache/x.lock' could not be acquired: it timed out"),
    ("TimeoutExpired", "Command '['nvcc', '--version']' timed out after 10 seconds"),
    ("OSError", "Connection closed by remote peer while downloading cifar-10-binary.tar.gz"),
    ("ValueError", "heartbeat timeout must be positive"),
    # of meeting, where the rank itself is at fault
    (
        "DistNetworkError",
        "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, "
        "name: EADDRINUSE, message: address already in use",
    ),
    ("RuntimeError", f"{PAIR.replace('pair.cc', 'device.cc')}:84] ifa != nullptr. Unable to find address for: eth5"),
    ("DistBackendError", f"{NCCL}, invalid usage, NCCL version 2.26.2\nncclInvalidUsage: Duplicate GPU detected"),
    (
        "DistBackendError",
        f"{NCCL}, unhandled system error\n{SYSTEM}\nLast error:\nError while creating shared memory segment "
        "nccl-5Iyyab (size 9637888), error: No space left on device (28)",
    ),
    ("DistBackendError", f"{NCCL}, unhandled cuda error\nncclUnhandledCudaError: Call to CUDA function failed."),
    # that speak of memory or of allocating
    ("ValueError", "memory of shape (3, 4) does not fit into memory of shape (4, 3)"),
    ("RuntimeError", "CUDA error: an illegal memory access was encountered"),
    ("RuntimeError", "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned to memory"),
    ("OSError", "cannot allocate a port: all of 49152-65535 are in use"),
    ("RuntimeError", "failed to allocate stream; live stream count: 3"),
    ("RuntimeError", "Cannot allocate unsized type"),
    ("OSError", "[Errno 28] No space left on device"),
    ("ResourceExhaustedError", "/data/cache_0; No space left on device [Op:SaveV2]"),
    ("ResourceExhaustedError", "/data/train-00001.tfrecord; Too many open files [Op:IteratorGetNext]"),
    ("XlaRuntimeError", "RESOURCE_EXHAUSTED: Received message larger than max (4194305 vs. 4194304)"),
    ("RuntimeError", "unable to open shared memory object </torch_71_3> in read-write mode: Too many open files (24)"),
    # of data and of programs
    ("FileNotFoundError", "[Errno 2] No such file or directory: '/data/cifar10/train.npy'"),
    ("ValueError", "cannot reshape array of size 3072 into shape (32,32,4)"),
    ("InvalidArgumentError", "Incompatible shapes: [128,10] vs. [64,10] [Op:Mul]"),
    ("DataLossError", "corrupted record at 0 [Op:IteratorGetNext]"),
    ("MXNetError", "Check failed: dshape[1] == 3 (1 vs. 3) : Shape mismatch"),
    ("TypeError", "conv_general_dilated lhs feature dimension size must match"),
    ("FloatingPointError", "invalid value (nan) encountered in jit(step)"),
    ("RuntimeError", "CUDA error: uncorrectable ECC error encountered"),
    ("RuntimeError", "expected scalar type Float but found BFloat16"),
]


def names(table: list[tuple[str, str]]) -> list[str]:
    return [f"{kind}: {message[:60]}" for kind, message in table]


def kind_of(folder: Path, kind: str, message: str, *, ranks: int) -> str | None:
    """What becomes of runs whose ranks have all reported this."""
    (folder / LOG_FILE).write_bytes(b"")
    events = (*TRAINING, failed(kind, message))
    files = [written(folder / f"events-{rank}.jsonl", *events) for rank in range(ranks)]
    return judge(files, WorkerEnding("exited", "", (1,) * ranks), 1.0, folder / LOG_FILE, memory_ran_out=False).kind


@pytest.mark.parametrize(("kind", "message"), OUT_OF_MEMORY, ids=names(OUT_OF_MEMORY))
def test_memory_that_ran_out_is_known_by_what_frameworks_say(tmp_path: Path, kind: str, message: str) -> None:
    assert [kind_of(tmp_path, kind, message, ranks=ranks) for ranks in (1, 2)] == ["out of memory"] * 2


@pytest.mark.parametrize(("kind", "message"), LOST_PEER, ids=names(LOST_PEER))
def test_rank_that_is_missed_is_known_by_what_its_peers_say(tmp_path: Path, kind: str, message: str) -> None:
    assert kind_of(tmp_path, kind, message, ranks=2) == "lost rank"


@pytest.mark.parametrize(("kind", "message"), LOST_PEER, ids=names(LOST_PEER))
def test_one_process_alone_misses_nobody(tmp_path: Path, kind: str, message: str) -> None:
    assert kind_of(tmp_path, kind, message, ranks=1) == "error"


@pytest.mark.parametrize(("kind", "message"), OTHER_ERRORS, ids=names(OTHER_ERRORS))
def test_any_other_error_is_neither(tmp_path: Path, kind: str, message: str) -> None:
    assert [kind_of(tmp_path, kind, message, ranks=ranks) for ranks in (1, 2)] == ["error"] * 2
