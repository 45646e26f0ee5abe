import contextlib
import json
import math
import multiprocessing
import threading

import pytest
import torch
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from bdl_lessons.datasets.records import read_records, record_digest, trial_key
from reproductions.records import append_record, make_record

CPU = torch.device("cpu")


def record(seed=0, **metrics):
    return make_record(
        "toy", "paper", {"width": 3}, seed, metrics or {"error": 0.5}, seconds=1.23, device=CPU
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "toy.jsonl"


def test_a_record_says_what_was_run_where_and_with_what():
    made = record(seed=4)
    assert made["config"] == {"width": 3}
    assert made["seed"] == 4
    assert made["metrics"] == {"error": 0.5}
    assert made["seconds"] == 1.2
    assert made["device"] == "cpu"
    assert made["scale"] == "paper"
    assert set(made["versions"]) == {"python", "torch", "bdl_lessons"}


def test_the_key_depends_on_values_and_not_on_their_order():
    key = trial_key({"a": 1, "b": 0.5}, 0)
    assert trial_key({"b": 0.5, "a": 1}, 0) == key
    assert trial_key({"a": 1, "b": 0.25}, 0) != key
    assert trial_key({"a": 1, "b": 0.5}, 1) != key
    assert key == "5a1fa9f4a20cd966", "records on disk would no longer be found"


@given(
    st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.floats(allow_nan=False))),
    st.integers(),
)
def test_a_configuration_keeps_its_key_through_a_file(config, seed):
    if any(isinstance(v, float) and math.isinf(v) for v in config.values()):
        with pytest.raises(ValueError, match="not JSON compliant"):
            trial_key(config, seed)
        return
    read_back = json.loads(json.dumps(config))
    assert trial_key(read_back, seed) == trial_key(config, seed)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_not_recorded(bad):
    with pytest.raises(ValueError, match="error is not finite numbers"):
        record(error=bad)
    with pytest.raises(ValueError, match="curve is not finite numbers"):
        make_record(
            "toy", "paper", {}, 0, {"a": 1}, arrays={"curve": [[0.0, bad]]}, seconds=0, device=CPU
        )


def test_records_come_back_in_order(path):
    assert read_records(path) == []
    made = [record(seed) for seed in range(3)]
    assert [append_record(path, one) for one in made] == [True] * 3
    assert read_records(path) == made


def test_a_trial_is_recorded_once(path):
    assert append_record(path, record(error=0.5))
    assert not append_record(path, record(error=0.7))
    assert [r["metrics"]["error"] for r in read_records(path)] == [0.5]


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


@pytest.mark.parametrize("line", [b"<<<<<<< HEAD\n", b"{}\n", b"3\n", b'{"key": \n'])
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


def test_a_changed_configuration_seed_or_key_is_an_error(path):
    append_record(path, record())
    append_record(path, record(seed=1))
    good, key = path.read_bytes(), record()["key"].encode()
    for old, new in (
        (b'"width": 3', b'"width": 7'), (b'"seed": 1', b'"seed": 5'), (key, key[::-1]),
    ):  # fmt: skip
        path.write_bytes(good.replace(old, new))
        with pytest.raises(
            ValueError, match=r"toy\.jsonl, line \d is not a record: the key is not"
        ):
            read_records(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": {}}, "there are no metrics"),
        ({"metrics": {"error": math.nan}}, "not JSON compliant"),
        ({"metrics": {"error": None}}, "error is not finite numbers"),
        ({"metrics": {"error": "0.5"}}, "error is not finite numbers"),
        ({"metrics": {"error": True}}, "error is not finite numbers"),
        ({"metrics": [0.5]}, "has no attribute"),
        ({"arrays": {"curve": 1.0}}, "curve is not finite numbers"),
        ({"arrays": {"curve": [0.0, None]}}, "curve is not finite numbers"),
        ({"arrays": {"curve": [0.0, ["text"]]}}, "curve is not finite numbers"),
        ({"experiment": "other"}, "it is of 'other' at scale 'paper'"),
        ({"scale": "quick"}, "it is of 'toy' at scale 'quick'"),
        ({"digest": None}, "the digest is not that of its entries"),
    ],
)
def test_a_record_of_something_else_is_refused_with_its_line(path, changes, message):
    """Each with the digest of what it says: no accident, but another program's work."""
    append_record(path, record())
    other = record(seed=1) | changes
    if "digest" not in changes:
        with contextlib.suppress(ValueError):  # of a NaN there is none
            other |= {"digest": record_digest(other)}
    with path.open("a") as file:
        file.write(json.dumps(other) + "\n")
    with pytest.raises(ValueError, match=rf"toy\.jsonl, line 2 is not a record: .*{message}"):
        read_records(path)


def test_a_record_without_an_entry_or_a_digest_is_refused(path):
    for name in ("metrics", "arrays", "experiment", "digest"):
        other = {key: value for key, value in record().items() if key != name}
        path.write_text(json.dumps(other) + "\n")
        with pytest.raises(ValueError, match=r"line 1 is not a record: (it has no|the digest)"):
            read_records(path)


def test_a_line_that_stands_twice_is_refused(path):
    append_record(path, record())
    path.write_bytes(2 * path.read_bytes())
    with pytest.raises(ValueError, match="line 2 is not a record: a line before it is of the same"):
        read_records(path)


def test_no_flipped_bit_is_read_as_another_number(path):
    """Two ends of lines, where a flip joins or cuts them, and every bit of one line."""
    made = [record(seed, error=0.5 + seed / 7) for seed in (0, 1)]
    for one in made:
        append_record(path, one)
    good = path.read_bytes()
    for bit in range(0, 8 * len(good), 3):
        content = bytearray(good)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            found = read_records(path)
        except ValueError as error:
            assert "toy.jsonl, line" in str(error)  # noqa: PT017
        else:
            assert found in (made, made[:1]), bit


def test_a_folder_in_place_of_the_file_is_named(path):
    path.mkdir()
    with pytest.raises(ValueError, match=r"the records in .*toy\.jsonl cannot be read"):
        read_records(path)


def test_brackets_without_end_are_an_error_with_the_name_of_the_file(path):
    path.write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(ValueError, match=r"toy\.jsonl, line 1 is not a record"):
        read_records(path)


def test_an_append_waits_for_the_lock(path):
    with FileLock(path.with_suffix(".lock")):
        waiting = threading.Thread(target=append_record, args=(path, record()))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert not path.exists()
    waiting.join(60)
    assert read_records(path) == [record()]


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
