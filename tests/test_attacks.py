"""The scripts of attacks/: every file is refused, in a process of its own or here."""

import pytest

pytest.importorskip("resource", reason="the scripts limit the memory")

from attacks import harness

SLOW = {"compressed_checkpoint", "many_arrays", "many_values", "zip_bomb"}  # which make large files


@pytest.mark.parametrize("name", sorted(set(harness.names()) - SLOW))
def test_every_file_is_refused(name, tmp_path):
    """Or what was checked is what is used, if the file changes between the two."""
    path, answer = tmp_path / "model", "loaded; " if name == "changed_meanwhile" else "refused: "
    labels = []
    for label in harness.attack(name).files(path):
        labels.append(label)
        text = harness.attempt(name, path)
        assert text.startswith(answer), (label, text)
    assert labels
    assert len(set(labels)) == len(labels)


def test_the_table_of_attacks(capsys):
    assert harness.show("two_formats", "pickle_inside") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("| refused: " in line for line in lines) == 7
    assert lines[-1] == "7 files, 0 failures."


def test_an_unknown_attack_is_named():
    with pytest.raises(ValueError, match="There is no attack 'bomb'"):
        harness.attack("bomb")
