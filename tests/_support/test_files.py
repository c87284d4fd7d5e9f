"""Files are replaced at once, or not at all."""

import pytest

from dotsketch._support.files import atomic_write


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_changes_nothing(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write():
        with atomic_write(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_several_writers_do_not_meet(tmp_path):
    path = tmp_path / ("file" * 60)  # almost as long as a name may be
    with atomic_write(path) as first:
        first.write(b"first")
        with atomic_write(path) as second:
            second.write(b"second, longer")
        assert path.read_bytes() == b"second, longer"
    assert path.read_bytes() == b"first"


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    with atomic_write(tmp_path / "file"):
        pass
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_in_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "missing" / "file"):
        pass
