"""Names that become parts of paths."""

import pytest

from lightning_xai.runs.names import MAX_BYTES, check_name


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../x", "x/..", "x/../y", "/x", "/", "x/", "x//y", "./x", "x/.", " ", " x", "x ", "x/ /y",
        "-rf", "--config", "-", "ok/-rf", "-rf/ok",
        "a\\b", "..\\x", "x\n", "x\0y", "x\x7fy", "x\x1b[31m", "\ud800",
        "x" * (MAX_BYTES + 1), "ü" * (MAX_BYTES // 2 + 1),
        "ok/" + "x" * (MAX_BYTES + 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
def test_name_that_leaves_its_folder_or_is_no_file_name_is_refused_in_one_line(name, nested):
    with pytest.raises(ValueError, match="^split is ") as caught:
        check_name("split", name, nested=nested)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "name", ["test", "test-ood", "test-", "IG (100 steps)", "..x", "x..y", ".hidden", "é", "試験", "x" * MAX_BYTES]
)
def test_usual_names_are_allowed(name):
    check_name("split", name)
    check_name("experiment", f"chain/{name}/010", nested=True)


@pytest.mark.parametrize("name", ["a/b", "roar/gradient/010"])
def test_only_nested_names_may_have_parts(name):
    check_name("experiment", name, nested=True)
    with pytest.raises(ValueError, match="has no /"):
        check_name("method", name)
