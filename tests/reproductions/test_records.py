import json
import math
import multiprocessing

import pytest
import torch

from reproductions.experiment import Trial, TrialResult
from reproductions.records import append_record, make_record, read_records, record_digest, trial_key

CPU = torch.device("cpu")


def record(seed=0, arrays=None, **metrics):
    result = TrialResult(metrics or {"error": 0.5}, arrays or {})
    return make_record("toy", "paper", Trial({"width": 3}, seed), result, 1.23, CPU)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "toy.jsonl"


def test_the_key_depends_on_values_and_not_on_their_order():
    key = trial_key({"a": 1, "b": 0.5}, 0)
    assert trial_key({"b": 0.5, "a": 1}, 0) == key
    assert trial_key({"a": 1, "b": 0.25}, 0) != key
    assert trial_key({"a": 1, "b": 0.5}, 1) != key
    assert key == "5a1fa9f4a20cd966", "records on disk would no longer be found"
    with pytest.raises(ValueError, match="not JSON compliant"):
        trial_key({"a": math.inf}, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "0.5"])
def test_what_is_not_finite_is_not_recorded(bad):
    with pytest.raises(ValueError, match="error is not finite numbers"):
        record(error=bad)
    with pytest.raises(ValueError, match="curve is not finite numbers"):
        record(arrays={"curve": [[0.0, bad]]})


def test_records_come_back_in_order(path):
    assert read_records(path) == []
    made = [record(seed) for seed in range(3)]
    assert [append_record(path, one) for one in made] == [True] * 3
    assert not append_record(path, record(seed=1, error=0.7)), "a trial is recorded once"
    assert read_records(path) == made


def test_a_last_line_cut_at_any_byte_is_dropped_and_the_rest_kept(path):
    made = [record(seed) for seed in range(3)]
    for one in made:
        append_record(path, one)
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start, len(whole)):
        path.write_bytes(whole[:cut])
        complete = cut == len(whole) - 1  # only the end of the line is missing
        assert read_records(path) == made[: 3 if complete else 2], cut
        assert append_record(path, made[2]) is not complete
        extra = record(seed=9)
        append_record(path, extra)
        assert read_records(path) == [*made, extra], cut
        assert path.read_bytes().startswith(whole)


LINES = [b"<<<<<<< HEAD", b"{}", b"3", b'{"key": ', b'{"digest": 3, "a": 1e999}', b"[" * 10**5]
LINES.append(json.dumps({"a": 1, "digest": record_digest({"a": 1})}).encode())


@pytest.mark.parametrize("line", [line + b"\n" for line in LINES], ids=range(len(LINES)))
def test_a_complete_line_that_is_no_record_is_an_error(path, line):
    append_record(path, record())
    good = path.read_bytes()
    for content in (line + good, good + line):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"toy\.jsonl, line \d is not a record"):
            read_records(path)
        with pytest.raises(ValueError, match="is not a record"):
            append_record(path, record(seed=1))
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"width": 7}}, "the key is not that of its configuration and seed"),
        ({"seed": 5}, "the key is not that of its configuration and seed"),
        ({"experiment": "other"}, "it is of 'other' at scale 'paper'"),
        ({"scale": "quick"}, "it is of 'toy' at scale 'quick'"),
        ({"digest": None}, "the digest is not that of its entries"),
        ({"seconds": 7.0, "digest": record(seed=1)["digest"]}, "the digest is not that"),
        ({"metrics": None}, "there are no metrics"),
        ({"metrics": "0.5"}, "it is no record: AttributeError"),
        (record(), "a line before it is of the same trial"),
    ],
)
def test_a_record_of_something_else_is_refused_with_its_line(path, changes, message):
    """Each with the digest of what it says: no accident, but another program's work."""
    append_record(path, record())
    other = record(seed=1) | changes
    if "digest" not in changes:
        other |= {"digest": record_digest(other)}
    with path.open("a") as file:
        file.write(json.dumps(other) + "\n")
    with pytest.raises(ValueError, match=rf"toy\.jsonl, line 2 is not a record: .*{message}"):
        read_records(path)


def test_two_processes_that_append_at_once_lose_nothing(path):
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    workers = [
        spawn.Process(target=_append_many, args=(path, start, range(first, 60, 2)))
        for first in (0, 1)
    ]
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
