"""The store of notes: its memory, its file and the order of notes."""

import tracemalloc

import pytest

from lightning_xai.data.clinical.note_store import COLUMNS, NoteStore, read_notes, time_number
from tests.data.clinical.look_alike import header, line

TEXT = "A note of some length. " * 200  # 4.6 kB


def write_notes(folder, num_admissions, num_others):
    folder.mkdir()
    with (folder / "NOTEEVENTS.csv").open("w") as file:
        file.write(header(COLUMNS))
        for admission in range(num_admissions):
            for number in range(1 + num_others):
                category = "Nursing" if number else "Discharge summary"
                row_id = admission * (1 + num_others) + number
                file.write(line(COLUMNS, (row_id, 1, admission, "2150-01-01", "", category, "Report", "", TEXT)))
    return folder


def peak_of(folder):
    """Returns the largest number of bytes that Python holds while the discharge summaries are read."""
    tracemalloc.start()
    store, counts = read_notes(folder, lambda row_id, admission, category: category == "Discharge summary", folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert store.text(len(store) - 1) == TEXT
    store.close()
    return peak, counts["notes"]


def test_memory_depends_neither_on_other_notes_nor_on_the_length_of_the_texts(tmp_path):
    few, num_few = peak_of(write_notes(tmp_path / "few", 100, 1))
    many, num_many = peak_of(write_notes(tmp_path / "many", 100, 15))
    assert (num_few, num_many) == (200, 1600)
    assert many < 1.1 * few
    assert few < 100 * len(TEXT)  # less than the summaries that were read


def test_a_note_takes_few_bytes_of_memory(tmp_path):
    few, _ = peak_of(write_notes(tmp_path / "few", 100, 0))
    many, _ = peak_of(write_notes(tmp_path / "many", 900, 0))
    assert (many - few) / 800 < 300


def test_file_has_no_name(tmp_path):
    store = NoteStore(tmp_path / "notes")
    store.add("private", row_id=1, admission=2)
    assert list((tmp_path / "notes").iterdir()) == []
    assert (tmp_path / "notes").stat().st_mode & 0o777 == 0o700
    store.close()


@pytest.mark.parametrize("text", ["", "naïve \U0001f600 µg\n", "a\r\nb"])
def test_texts_come_back_unchanged(tmp_path, text):
    store = NoteStore(tmp_path)
    places = [store.add(other, row_id=i, admission=1) for i, other in enumerate(["first", text, "last"])]
    assert [store.text(place) for place in places] == ["first", text, "last"]
    store.close()


def test_times_of_either_form_sort_together():
    values = ["", "2150-01-01", "2150-01-01 08:00:00", "2150-01-02 00:00:00"]
    assert sorted(values, key=time_number) == values
