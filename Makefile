# `make run` starts three nodes on this machine, `make test` proves what the README promises.
# Both need python3 and make only; the environment in .venv is made again when its inputs change.

PYTHON := .venv/bin/python
INSTALLED := .venv/.installed

.PHONY: run test compiled
.DEFAULT_GOAL := test

run: $(INSTALLED) compiled
	@exec $(PYTHON) -m apphost

test: $(INSTALLED) compiled
	@exec $(PYTHON) -m apphost.everything

# A node is several processes that start often; where byte code is not written by itself, each would compile anew.
compiled: $(INSTALLED)
	@$(PYTHON) -m compileall -q keyload harness apphost

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(PYTHON) || python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
