"""What a run came to, from what its ranks wrote and how its processes ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.run.diagnosis import WorkerEnding, judge
from paceline.run.worker import LOG_FILE
from paceline.store.records.events import AnyEvent, EventFile
from paceline.store.records.outcome import Outcome, cause_of
from paceline.system.text.safe_text import shortened
from tests.factories.events import block, entered, failed, finished, written

WENT_WELL = WorkerEnding("exited", "", (0,))
TRAINING = (entered("start"), entered("build"), entered("train"), block("train", 1.0, 10))
COMPLETE = (*TRAINING, entered("finish"), finished())
RESET = "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4321"


def ranks(folder: Path, *events: tuple[AnyEvent, ...], printed: bytes = b"") -> list[EventFile]:
    """A file for each rank, and the log of them all."""
    (folder / LOG_FILE).write_bytes(printed)
    return [written(folder / f"events-{rank}.jsonl", *lines) for rank, lines in enumerate(events)]


def outcome(files: list[EventFile], ending: WorkerEnding, *, memory_ran_out: bool = False) -> Outcome:
    return judge(files, ending, 12.5, files[0].path.with_name(LOG_FILE), memory_ran_out=memory_ran_out)


def cause(
    files: list[EventFile], ending: WorkerEnding, *, memory_ran_out: bool = False
) -> tuple[str, str | None, str | None]:
    found = outcome(files, ending, memory_ran_out=memory_ran_out)
    assert found.status == "failed"
    return found.phase, found.kind, found.message


def test_cause_names_kind_phase_and_message() -> None:
    assert cause_of("crash", "train", "killed by SIGSEGV") == "crash in train: killed by SIGSEGV"


def test_text_that_is_cut_is_no_longer_than_allowed_and_says_so() -> None:
    assert (shortened("abc", 3), shortened("abcd", 3)) == ("abc", "ab…")


def test_run_that_finished_is_ok(tmp_path: Path) -> None:
    assert outcome(ranks(tmp_path, COMPLETE), WENT_WELL) == Outcome(
        status="ok", phase="finish", kind=None, message=None, log_end=None, exit_codes=(0,), seconds=12.5
    )
    assert outcome(ranks(tmp_path, COMPLETE, COMPLETE), WENT_WELL).status == "ok"


def test_exception_is_an_error_with_its_message_in_its_phase(tmp_path: Path) -> None:
    broken = (entered("start"), entered("build"), failed("ValueError", "no\n  such layer", phase="build"))
    found = outcome(ranks(tmp_path, broken, printed=b"building\noops\n"), WorkerEnding("exited", "rank 0 failed", (1,)))
    assert found == Outcome(
        status="failed",
        phase="build",
        kind="error",
        message="ValueError: no such layer",  # one line
        log_end="building\noops",
        exit_codes=(1,),
        seconds=12.5,
    )


def test_long_message_is_cut(tmp_path: Path) -> None:
    _, _, message = cause(ranks(tmp_path, (failed("E", "x" * 1000),)), WorkerEnding("exited", "", (1,)))
    assert message == "E: " + "x" * 296 + "…"


def test_memory_that_ran_out_is_told_as_it_was_reported(tmp_path: Path) -> None:
    files = ranks(tmp_path, (*TRAINING, failed("MemoryError", "")))
    assert cause(files, WorkerEnding("exited", "", (1,))) == ("train", "out of memory", "MemoryError:")


def test_kernel_that_killed_for_want_of_memory_explains_a_kill_that_nobody_else_does(tmp_path: Path) -> None:
    killed = WorkerEnding("exited", "rank 0 (process 7) is gone", (-9,))
    told = "killed by SIGKILL: memory ran out in its control group"
    assert cause(ranks(tmp_path, TRAINING), killed, memory_ran_out=True) == ("train", "out of memory", told)
    assert cause(ranks(tmp_path, TRAINING), killed) == ("train", "crash", "killed by SIGKILL")


@pytest.mark.parametrize(("code", "told"), [(-11, "killed by SIGSEGV"), (3, "ended with exit code 3 before")])
def test_kernel_explains_nothing_but_a_kill(tmp_path: Path, code: int, told: str) -> None:
    """It may have ended something else in the same control group."""
    _, kind, message = cause(ranks(tmp_path, TRAINING), WorkerEnding("exited", "", (code,)), memory_ran_out=True)
    assert kind == "crash"
    assert message is not None
    assert message.startswith(told)


def test_what_the_rank_itself_reports_comes_before_the_kernels_count(tmp_path: Path) -> None:
    files = ranks(tmp_path, (*TRAINING, failed("ValueError", "loss is not finite")), TRAINING)
    ending = WorkerEnding("trouble", "rank 1 (process 7) is gone", (1, -9))
    assert cause(files, ending, memory_ran_out=True)[1:] == ("error", "ValueError: loss is not finite")


def test_what_the_rank_itself_reports_comes_before_a_timeout(tmp_path: Path) -> None:
    files = ranks(tmp_path, (*TRAINING, failed("ValueError", "loss is not finite")), TRAINING)
    ending = WorkerEnding("timeout", "no end after 60 s", (1, None))
    assert cause(files, ending)[1:] == ("error", "ValueError: loss is not finite")


def test_memory_that_ran_out_explains_a_lost_rank(tmp_path: Path) -> None:
    files = ranks(tmp_path, (*TRAINING, failed("RuntimeError", RESET)), TRAINING)
    _, kind, message = cause(files, WorkerEnding("trouble", "rank 1 (process 7) is gone", (1, -9)), memory_ran_out=True)
    assert (kind, message) == ("out of memory", "rank 1 (process 7) is gone: memory ran out in its control group")


NEVER_MET = "the ranks have not met after 120 s"
EXIT_CODE_3 = b"""Failures:
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : 3 (pid: 71)
"""


@pytest.mark.parametrize(
    ("ending", "printed", "kind"),
    [
        (WorkerEnding("trouble", "rank 1 (process 7) is stopped", (None,)), b"", "lost rank"),
        (WorkerEnding("trouble", NEVER_MET, (None,)), b"", "lost rank"),
        (WorkerEnding("exited", "", (1,)), EXIT_CODE_3, "lost rank"),
        (WorkerEnding("trouble", "rank 1 (process 7) is gone", (None,), vanished=True), b"", "out of memory"),
        (WorkerEnding("exited", "", (1,)), b"", "out of memory"),
    ],
)
def test_kernels_count_explains_only_ranks_that_ended_unseen(
    tmp_path: Path, ending: WorkerEnding, printed: bytes, kind: str
) -> None:
    """One launcher for two ranks: its own exit code is not theirs."""
    assert cause(ranks(tmp_path, TRAINING, TRAINING, printed=printed), ending, memory_ran_out=True)[1] == kind


def test_memory_that_ran_out_elsewhere_does_no_harm(tmp_path: Path) -> None:
    # Some other program in the same control group may have been ended.
    assert outcome(ranks(tmp_path, COMPLETE), WENT_WELL, memory_ran_out=True).status == "ok"


@pytest.mark.parametrize(("code", "name"), [(-9, "SIGKILL"), (-11, "SIGSEGV"), (-6, "SIGABRT"), (-7, "SIGBUS")])
def test_worker_that_was_killed_has_crashed(tmp_path: Path, code: int, name: str) -> None:
    assert cause(ranks(tmp_path, TRAINING), WorkerEnding("exited", "", (code,))) == (
        "train",
        "crash",
        f"killed by {name}",
    )


def test_signal_without_a_name_is_told_by_its_number(tmp_path: Path) -> None:
    assert cause(ranks(tmp_path, TRAINING), WorkerEnding("exited", "", (-40,))) == (
        "train",
        "crash",
        "killed by signal 40",
    )


def test_worker_that_left_early_has_crashed_even_with_exit_code_0(tmp_path: Path) -> None:
    assert cause(ranks(tmp_path, TRAINING), WENT_WELL) == (
        "train",
        "crash",
        "ended with exit code 0 before it had finished",
    )


def test_worker_that_never_wrote_a_word_has_crashed_in_its_start(tmp_path: Path) -> None:
    never = ranks(tmp_path, ())
    assert cause(never, WorkerEnding("exited", "", (1,))) == (
        "start",
        "crash",
        "ended with exit code 1 before it had finished",
    )


def test_stopped_worker_has_crashed_as_it_was_seen(tmp_path: Path) -> None:
    stopped = WorkerEnding("trouble", "rank 0 (process 7) is stopped", (None,))
    assert cause(ranks(tmp_path, TRAINING), stopped) == ("train", "crash", "rank 0 (process 7) is stopped")


def test_run_that_takes_too_long_is_a_timeout(tmp_path: Path) -> None:
    ending = WorkerEnding("timeout", "no end after 60 s", (None,))
    assert cause(ranks(tmp_path, TRAINING), ending) == ("train", "timeout", "no end after 60 s")


def test_timeout_comes_before_all_that_followed_from_it(tmp_path: Path) -> None:
    files = ranks(
        tmp_path,
        (*TRAINING, failed("RuntimeError", "Timed out waiting 1800000ms for recv operation to complete")),
        TRAINING,
    )
    _, kind, _ = cause(files, WorkerEnding("timeout", "no end after 60 s", (1, None)), memory_ran_out=True)
    assert kind == "timeout"


def test_phase_is_that_of_the_rank_that_got_least_far(tmp_path: Path) -> None:
    files = ranks(tmp_path, TRAINING, (entered("start"), entered("build")))
    phase, kind, _ = cause(files, WorkerEnding("trouble", "rank 1 (process 7) is gone", (None, -11)))
    assert (phase, kind) == ("build", "lost rank")


def test_rank_that_fell_silent_is_lost_when_its_peers_miss_it(tmp_path: Path) -> None:
    files = ranks(tmp_path, (*TRAINING, failed("RuntimeError", RESET)), TRAINING)
    ending = WorkerEnding("exited", "rank 1 (process 7) is gone", (1, -9))
    assert cause(files, ending) == ("train", "lost rank", "rank 1 (process 7) is gone")


def test_lost_rank_is_named_even_when_nobody_saw_it_go(tmp_path: Path) -> None:
    files = ranks(tmp_path, (*TRAINING, failed("RuntimeError", "Connection reset by peer")), TRAINING)
    assert cause(files, WorkerEnding("exited", "", (1, 1)))[1:] == ("lost rank", "rank 1 ended without a word")


@pytest.mark.parametrize("seen", ["", "rank 0 failed", "rank 0 (process 5) is gone"])
def test_rank_that_alone_said_nothing_is_the_lost_one_whoever_was_seen_first(tmp_path: Path, seen: str) -> None:
    missing = (*TRAINING, failed("RuntimeError", RESET))
    silent = (entered("start", pid=7), *TRAINING[1:])
    files = ranks(tmp_path, missing, missing, silent, missing)
    ending = WorkerEnding("exited", seen, (1,))
    assert cause(files, ending) == ("train", "lost rank", "rank 2 (process 7) ended without a word")


def test_all_that_said_nothing_are_named_when_only_one_that_misses_them_was_seen(tmp_path: Path) -> None:
    files = ranks(tmp_path, (*TRAINING, failed("RuntimeError", RESET)), TRAINING, TRAINING)
    assert cause(files, WorkerEnding("exited", "rank 0 failed", (1,)))[2] == "rank 1, rank 2 ended without a word"


def test_ranks_that_never_met_are_told_as_that_though_one_lost_patience(tmp_path: Path) -> None:
    start = (entered("start", pid=7),)
    files = ranks(tmp_path, (*start, failed("DistStoreError", "wait timeout after 120000ms", phase="start")), start)
    ending = WorkerEnding("trouble", "the ranks have not met after 120 s", (None,))
    assert cause(files, ending) == ("start", "lost rank", "the ranks have not met after 120 s")


TORCHRUN = b"""
Root Cause (first observed failure):
[0]:
  time      : 2026-11-16_08:00:00
  host      : somewhere
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 71)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 71
"""


def test_launcher_knows_which_rank_was_killed_first(tmp_path: Path) -> None:
    """It ends the others so soon that one of them may be missed before."""
    files = ranks(tmp_path, TRAINING, TRAINING, printed=TORCHRUN)
    ending = WorkerEnding("exited", "rank 0 (process 7) is gone", (1,))
    assert cause(files, ending) == ("train", "lost rank", "rank 1 (process 71) was killed by SIGKILL")


TORCHRUN_IS_MISLED = b"""
Failures:
[1]:
  rank      : 2 (local_rank: 2)
  exitcode  : -9 (pid: 72) (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 72
[2]:
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 71) (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 71
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 70)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""


@pytest.mark.parametrize(("number", "kind"), [(9, "out of memory"), (11, "lost rank")])
def test_kernel_explains_the_kill_of_which_the_launcher_tells(tmp_path: Path, number: int, kind: str) -> None:
    files = ranks(tmp_path, TRAINING, TRAINING, printed=TORCHRUN.replace(b"-9", b"-%d" % number))
    found = cause(files, WorkerEnding("exited", "rank 0 (process 7) is gone", (1,)), memory_ran_out=True)
    assert found[1] == kind
    assert str(found[2]).startswith("rank 1 (process 71) was killed by SIG")


def test_launcher_that_takes_an_echo_for_the_cause_still_knows_who_was_killed(tmp_path: Path) -> None:
    """One that misses the killed rank may fail in the same second; those that the launcher ended had SIGTERM."""
    missing = (*TRAINING, failed("RuntimeError", RESET))
    files = ranks(tmp_path, missing, TRAINING, TRAINING, printed=TORCHRUN_IS_MISLED)
    assert cause(files, WorkerEnding("exited", "", (1,)))[2] == "rank 2 (process 72) was killed by SIGKILL"


def test_rank_that_the_launcher_ended_is_not_taken_for_the_cause(tmp_path: Path) -> None:
    left = TORCHRUN_IS_MISLED.replace(b"-9 (pid: 72) (SIGKILL)", b"3 (pid: 72)")
    files = ranks(tmp_path, TRAINING, TRAINING, TRAINING, printed=left)
    ending = WorkerEnding("exited", "rank 2 (process 72) is gone", (1,))
    assert cause(files, ending)[2] == "rank 2 (process 72) is gone"


def test_ranks_that_all_miss_each_other_are_a_lost_rank(tmp_path: Path) -> None:
    missing = failed("RuntimeError", "Connection reset by peer")
    files = ranks(tmp_path, (*TRAINING, missing), (*TRAINING, missing))
    assert cause(files, WorkerEnding("exited", "rank 0 failed", (1, 1))) == ("train", "lost rank", "rank 0 failed")


def test_ranks_that_all_miss_each_other_have_a_message_even_when_nobody_saw_it(tmp_path: Path) -> None:
    missing = failed("RuntimeError", "Connection reset by peer", time=5.0)
    files = ranks(tmp_path, (*TRAINING, missing), (*TRAINING, missing))
    _, kind, message = cause(files, WorkerEnding("exited", "", (1, 1)))
    assert kind == "lost rank"
    assert message == "RuntimeError: Connection reset by peer"


def test_exception_wins_over_its_echo_in_other_ranks(tmp_path: Path) -> None:
    files = ranks(
        tmp_path,
        (*TRAINING, failed("RuntimeError", "Connection reset by peer", time=8.0)),  # it lost patience first
        (*TRAINING, failed("ValueError", "loss is not finite", phase="evaluate", time=9.0)),
        TRAINING,
    )
    found = outcome(files, WorkerEnding("exited", "rank 0 failed", (1, 1, -15)))
    assert (found.kind, found.message) == ("error", "ValueError: loss is not finite")


def test_phase_belongs_to_the_exception_that_is_named(tmp_path: Path) -> None:
    files = ranks(
        tmp_path,
        (*TRAINING, failed("RuntimeError", "Connection reset by peer", phase="train", time=8.0)),
        (*TRAINING, failed("ValueError", "loss is not finite", phase="evaluate", time=9.0)),
    )
    phase, _, message = cause(files, WorkerEnding("exited", "", (1, 1)))
    assert (phase, message) == ("evaluate", "ValueError: loss is not finite")


def test_first_of_two_exceptions_is_the_cause(tmp_path: Path) -> None:
    files = ranks(
        tmp_path,
        (*TRAINING, failed("KeyError", "second", phase="evaluate", time=9.0)),
        (*TRAINING, failed("ValueError", "first", phase="train", time=8.0)),
    )
    assert cause(files, WorkerEnding("exited", "", (1, 1))) == ("train", "error", "ValueError: first")


def test_lonely_worker_that_cannot_reach_something_has_an_error(tmp_path: Path) -> None:
    # It has no peers, so this is no echo.
    files = ranks(tmp_path, (*TRAINING, failed("URLError", "Connection refused")))
    assert cause(files, WorkerEnding("exited", "rank 0 failed", (1,))) == (
        "train",
        "error",
        "URLError: Connection refused",
    )


def test_rubbish_among_the_events_spoils_the_run(tmp_path: Path) -> None:
    files = ranks(tmp_path, COMPLETE)
    files[0].rubbish.append(b"\xff\xfe not an event")
    assert cause(files, WENT_WELL) == (
        "finish",
        "protocol",
        r"a line among its events is none: b'\xff\xfe not an event'",
    )


def test_long_rubbish_is_cut(tmp_path: Path) -> None:
    files = ranks(tmp_path, COMPLETE, COMPLETE)
    files[1].rubbish.append(b"x" * 1000)
    _, _, message = cause(files, WENT_WELL)
    assert message == f"a line among its events is none: {b'x' * 60!r}"


def test_exception_explains_more_than_rubbish(tmp_path: Path) -> None:
    files = ranks(tmp_path, (*TRAINING, failed("ValueError", "no")))
    files[0].rubbish.append(b"rubbish")
    assert cause(files, WorkerEnding("exited", "", (1,)))[1] == "error"


def test_log_of_a_failure_is_kept_to_its_last_lines(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(100)]
    files = ranks(tmp_path, TRAINING, printed="\n".join(lines).encode())
    assert outcome(files, WorkerEnding("exited", "", (-9,))).log_end == "\n".join(lines[80:])


def test_log_of_rubbish_is_kept_as_text(tmp_path: Path) -> None:
    files = ranks(tmp_path, TRAINING, printed=b"x" * 10_000 + b"\xff end")
    log_end = outcome(files, WorkerEnding("exited", "", (-9,))).log_end
    assert log_end == "x" * 4091 + "\N{REPLACEMENT CHARACTER} end"  # 4096 bytes
