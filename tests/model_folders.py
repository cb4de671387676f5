"""Tiny models on disk, saved once a session."""

import pytest

from tiny_models import tiny_model


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of a tiny model."""
    folders = {}

    def save(name):
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            tiny_model(name).save_pretrained(folders[name])
        return folders[name]

    return save
