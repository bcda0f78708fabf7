# The two commands are `make run` and `make test`; both do the whole set-up first.

VENV ?= .venv
PORT ?= 8000
VAR_DIR ?= var
MINUTES ?= 30
export PORT VAR_DIR

PY := $(VENV)/bin/python
STAMP := $(VENV)/installed
LOCKS := requirements/base.txt requirements/embedded.txt requirements/dev.txt
DEVELOPMENT := DJANGO_SETTINGS_MODULE=$${DJANGO_SETTINGS_MODULE:-stagedoor.settings.development}
PIP_COMPILE := $(PY) -m piptools compile --quiet --no-config --no-header --generate-hashes \
	--strip-extras --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links

# Throw-away values: the checks load settings and reach no server.
random = $(shell $(PY) -c 'import secrets; print(secrets.token_hex(32))')
THROW_AWAY = DATABASE_URL=postgres://stagedoor:x@127.0.0.1:1/stagedoor \
	REDIS_URL=redis://127.0.0.1:1/0 CACHE_URL=redis://127.0.0.1:1/1 \
	SECRET_KEY=$(random) LINK_KEYS=1:$(random) ALLOWED_HOSTS=shop.example \
	BASE_URL=https://shop.example EMAIL_URL=smtp://127.0.0.1:1
# One advisory of the source that is asked, to see whether it can be.
ADVISORIES = https://api.osv.dev/v1/vulns/OSV-2020-111
PRODUCTION = DJANGO_SETTINGS_MODULE=stagedoor.settings.production $(THROW_AWAY)

.DEFAULT_GOAL := help
.PHONY: help setup run demo-faults test screenshots chaos lint advisories bench manage lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) ## make .venv with the locked requirements, look for the system's libraries
	@$(PY) -m stagedoor.system_libraries

run: setup ## run the whole product; PORT=8000 and VAR_DIR=var choose where
	@$(PY) -m stagedoor.run

demo-faults: setup ## beside `make run`: play faults, and say what one sees
	@$(PY) -m stagedoor.faults

test: setup ## run the tests on private servers; ARGS="-k name" chooses
	@env -u DATABASE_URL -u REDIS_URL -u CACHE_URL $(PY) -m pytest $(ARGS)

screenshots: setup ## pictures of the pages, wide and narrow, in var/screenshots/; needs chromium
	@env -u DATABASE_URL -u REDIS_URL -u CACHE_URL REQUIRE_BROWSER=1 \
		SCREENSHOTS="$(abspath $(VAR_DIR))/screenshots" \
		$(PY) -m pytest tests/browser/test_screenshots.py $(ARGS)
	@echo "The pictures are in $(VAR_DIR)/screenshots/"

chaos: setup ## recovery tests with the shipped durations, then MINUTES=30 of random faults; ARGS chooses
	@env -u DATABASE_URL -u REDIS_URL -u CACHE_URL CHAOS=1 STORM_SECONDS=$$(($(MINUTES) * 60)) \
		STORM_SEED=$${STORM_SEED:-$$(date +%s)} $(PY) -m pytest -s tests/recovery tests/stories/test_storm.py \
		tests/stories/test_email_once.py tests/stories/test_fan_out.py tests/stories/test_refunds_at_random.py \
		tests/tickets/test_refund.py tests/tickets/test_refund_property.py $(ARGS)

lint: setup ## format, style, imports, types, migrations, deployment checks
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(VENV)/bin/lint-imports
	@echo mypy
	@$(THROW_AWAY) $(PY) -m mypy
	@echo manage.py makemigrations --check
	@$(PRODUCTION) $(PY) -W "ignore:Got an error checking" manage.py makemigrations --check --dry-run
	@echo manage.py check --deploy
	@$(PRODUCTION) $(PY) manage.py check --deploy --fail-level WARNING

advisories: setup ## known vulnerabilities of what is locked; skipped where nobody can be asked
	@if $(PY) -c 'import urllib.request as u; u.urlopen("$(ADVISORIES)", timeout=10)' 2>/dev/null; then \
		$(PY) -m pip_audit --vulnerability-service osv --disable-pip --require-hashes \
			--progress-spinner off --requirement requirements/base.txt; \
	else echo "advisories: skipped, $(ADVISORIES) cannot be reached from here"; fi

bench: setup ## measure; prints ratios to bare Django, WeasyPrint and psycopg
	@env -u DATABASE_URL -u REDIS_URL -u CACHE_URL $(PY) -m benchmarks $(ARGS)

manage: setup ## a management command beside `make run`: make manage CMD="jobs status"
	@$(DEVELOPMENT) $(PY) manage.py $(CMD)

lock: setup ## compile requirements/*.in again
	@cd requirements && for name in base embedded dev; do \
		$(abspath $(VENV))/$(PIP_COMPILE:$(VENV)/%=%) --output-file $$name.txt $$name.in || exit 1; done

clean: ## remove .venv and caches; the data under var/ stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A pyenv shim can be on the path and refuse to run: only an interpreter that answers counts.
$(VENV)/bin/python:
	@for python in $(PYTHON) python3.13 python3.14 python3.12 python3 python \
			"$$HOME"/.pyenv/versions/3.1[3-9]*/bin/python "$$HOME"/.pyenv/versions/3.12*/bin/python; do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then \
			if "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
				echo "Making $(VENV) with $$("$$python" --version)"; \
				exec "$$python" -m venv --clear $(VENV); \
			fi; lacking="$$python"; \
		fi; \
	done; \
	if [ -n "$$lacking" ]; then \
		echo "$$lacking has no venv module: install it (Debian, Ubuntu: apt install python3-venv)."; \
	else \
		echo "Stagedoor needs Python 3.12 or newer, and none was found on the path or under ~/.pyenv."; \
		echo "Install one (python.org, pyenv install 3.13, or your system's packages), or say where it"; \
		echo "is: make PYTHON=/path/to/python3.13 …"; \
	fi >&2; exit 1

$(STAMP): $(VENV)/bin/python $(LOCKS)
	@echo "Installing the locked requirements"
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes \
		$(LOCKS:%=--requirement %)
	@touch $@
