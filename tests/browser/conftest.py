"""JupyterLab on a copy of the lessons, and a headless Chromium looking at it."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tools.lab import with_flags

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = (
    os.environ.get("BDL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, which all tests share."""
    if not CHROMIUM:
        pytest.skip("no chromium on the PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser):
    """A function that opens a page; ``page.errors`` are errors of its scripts and console."""

    def open_page(**options):
        page = browser.new_page(**options)
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda m: page.errors.append(m.text) if m.type == "error" else None)
        pages.append(page)
        return page

    pages = []
    yield open_page
    for page in pages:
        page.close()


@pytest.fixture(scope="session")
def lab_folder(tmp_path_factory):
    """A copy of the notebooks that JupyterLab shows."""
    return shutil.copytree(ROOT / "notebooks", tmp_path_factory.mktemp("lab") / "notebooks")


@pytest.fixture(scope="session")
def lab(browser, lab_folder):
    """The address of a running JupyterLab whose root is ``lab_folder``."""
    home = lab_folder.parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0"]
    options += ["--IdentityProvider.token=", "--LabApp.collaborative=False"]
    options = with_flags([*options, f"--ServerApp.root_dir={lab_folder}"])  # as make lab does
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for folder in ("_CONFIG_DIR", "_DATA_DIR", "LAB_SETTINGS_DIR", "LAB_WORKSPACES_DIR"):
        environment[f"JUPYTER{folder}"] = str(home / folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        cwd=home,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(address, process)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:  # it may wait for a kernel that was restarted
            process.kill()


def wait_for(address, process, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/api", timeout=2).close()
        except OSError:
            time.sleep(0.3)
        else:
            return
    raise RuntimeError("JupyterLab did not start")


@pytest.fixture
def page(lab, new_page):
    """A browser page for JupyterLab."""
    return new_page(viewport={"width": 1280, "height": 900})
