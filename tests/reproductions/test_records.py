import json
import math
import multiprocessing

import pytest
import torch

from reproductions.experiment import Trial, TrialResult
from reproductions.records import append_record, make_record, read_records, trial_key


def record(seed=0, arrays=None, name="toy", **metrics):
    result = TrialResult(metrics or {"error": 0.5}, arrays or {})
    return make_record(name, "paper", Trial({"width": 3}, seed), result, 1.23, torch.device("cpu"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "toy.jsonl"


def test_the_key_depends_on_values_and_not_on_their_order():
    key = trial_key({"a": 1, "b": 0.5}, 0)
    assert trial_key({"b": 0.5, "a": 1}, 0) == key
    assert trial_key({"a": 1, "b": 0.25}, 0) != key
    assert trial_key({"a": 1, "b": 0.5}, 1) != key
    assert key == "5a1fa9f4a20cd966", "records on disk would no longer be found"


@pytest.mark.parametrize(
    "result", [{"error": math.nan}, {"error": math.inf}, {"arrays": {"c": [[0.0, math.nan]]}}]
)
def test_what_is_not_finite_is_not_recorded(result):
    with pytest.raises(ValueError, match="not finite"):
        record(**result)


def test_records_come_back_in_order_and_a_trial_is_recorded_once(path):
    assert read_records(path) == []
    records = [record(seed) for seed in range(3)]
    for new in records:
        assert append_record(path, new)
    assert not append_record(path, record(seed=1, error=0.7))
    assert read_records(path) == records


def test_a_last_line_cut_at_any_byte_is_dropped_and_the_rest_kept(path):
    records = [record(seed) for seed in range(3)]
    for new in records:
        append_record(path, new)
    whole = path.read_bytes()
    start_of_last_line = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start_of_last_line, len(whole), 7):
        path.write_bytes(whole[:cut])
        assert read_records(path) == records[:2], cut
        assert append_record(path, records[2])
        assert path.read_bytes() == whole


TWICE = json.dumps(record()).encode()
OF_ANOTHER = json.dumps(record(seed=1, name="other")).encode()
CHANGED = json.dumps(record(seed=1) | {"seconds": 7.0}).encode()


@pytest.mark.parametrize("line", [b"<<<<<<< HEAD", b"{}", b"3", TWICE, OF_ANOTHER, CHANGED])
def test_a_complete_line_that_is_no_record_of_the_file_is_an_error(path, line):
    append_record(path, record())
    content = path.read_bytes() + line + b"\n"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"toy\.jsonl, line 2 is not a record"):
        read_records(path)
    with pytest.raises(ValueError, match="is not a record"):
        append_record(path, record(seed=2))
    assert path.read_bytes() == content


def test_two_processes_that_append_at_once_lose_nothing(path):
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    even = spawn.Process(target=_append_many, args=(path, start, range(0, 60, 2)))
    odd = spawn.Process(target=_append_many, args=(path, start, range(1, 60, 2)))
    workers = (even, odd)
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert sorted(r["seed"] for r in read_records(path)) == list(range(60))


def _append_many(path, start, seeds):
    start.wait(60)
    for seed in seeds:
        append_record(path, record(seed, padding=0.123456789))
