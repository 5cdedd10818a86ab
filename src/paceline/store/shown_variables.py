"""Which variables of an environment may be shown: those that are known to be harmless, and no others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from paceline.catalog.frameworks import all_frameworks
from paceline.environments.worker_variables import INHERITED
from paceline.system.processes import RUN_VARIABLE
from paceline.system.text.secret_names import PASSWORD_IN_ADDRESS, SECRET

HIDDEN = "(hidden)"  # in place of a value
KEPT_SECRET = re.compile(  # in names of variables, where words are joined by _
    r"(^|_)(key|keys|pat|pass|pgpass|pw|login|session|cookie|cert|dsn|sas|license|licence|creds?)(_|$)", re.IGNORECASE
)
SET_BY_US = frozenset(
    {
        *(*INHERITED, RUN_VARIABLE, "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "GLOO_SOCKET_IFNAME"),
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER"),
        *("DMLC_WORKER_ID", "DMLC_INTERFACE"),
    }
)
# Families of one library each, of which every member is a setting of it, as its documentation lists them.
FAMILIES = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|GOTO|BLIS|NUMEXPR|VECLIB|DNNL|ONEDNN|NCCL|GLOO|CUDA|CUDNN|CUBLAS|MXNET|XLA)_[A-Z0-9_]+"
    r"|(TORCHINDUCTOR|TORCHDYNAMO|TORCH_NCCL|TORCH_COMPILE|PYTORCH)_[A-Z0-9_]+"
)
# Of names that other programs use as well, such as Terraform's TF_, those that the framework reads.
KNOWN = re.compile(
    r"TF_(ENABLE_ONEDNN_OPTS|CPP_(MIN_LOG_LEVEL|MIN_VLOG_LEVEL|MAX_VLOG_LEVEL|VMODULE)|XLA_FLAGS|NUM_(INTER|INTRA)OP_THREADS"
    r"|DETERMINISTIC_OPS|CUDNN_\w+|FORCE_GPU_ALLOW_GROWTH|GPU_ALLOCATOR|GPU_THREAD_MODE|GPU_THREAD_COUNT|USE_LEGACY_KERAS"
    r"|ENABLE_\w+_NHWC|DISABLE_MKL|USE_CUDNN\w*|AUTOTUNE_THRESHOLD|CONFIG)"
    r"|KERAS_(BACKEND|HOME)"
    r"|JAX_(PLATFORMS|PLATFORM_NAME|ENABLE_X64|NUM_CPU_DEVICES|DEFAULT_MATMUL_PRECISION|DISABLE_JIT|DEBUG_NANS"
    r"|CPU_ENABLE_\w+|CPU_COLLECTIVES_IMPLEMENTATION|COMPILATION_CACHE_DIR|ENABLE_COMPILATION_CACHE|TRACEBACK_FILTERING)"
    r"|TORCH_(HOME|LOGS|CUDA_ARCH_LIST|CPP_LOG_LEVEL|DISTRIBUTED_DEBUG|SHOW_CPP_STACKTRACES|USE_\w+|ALLOW_TF32\w*)"
)


def harmless(name: str, value: str) -> bool:
    """Whether it is known what it says, and its value has no password in it."""
    if PASSWORD_IN_ADDRESS.search(value):
        return False
    if name in SET_BY_US or name in _of_frameworks():
        return True
    known = FAMILIES.fullmatch(name) or KNOWN.fullmatch(name)
    return known is not None and not may_be_secret(name)


@cache
def _of_frameworks() -> frozenset[str]:
    """What frameworks that are here, plug-ins included, want to be set for their workers."""
    return frozenset(name for framework in all_frameworks().values() for name in framework.environment)


def may_be_secret(name: str) -> bool:
    """Whether its name says so."""
    return SECRET.search(name) is not None or KEPT_SECRET.search(name) is not None


def shown_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """With a word in place of the values that must stay private."""
    return {name: value if harmless(name, value) else HIDDEN for name, value in variables.items()}
