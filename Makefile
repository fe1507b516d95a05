# Builds masu and installs it: the library, its headers, the command, manual pages, completions, documents, and what
# belongs to `masu export`.
#
#   make
#   make install [PREFIX=/usr/local] [LIBDIR=$(PREFIX)/lib] [DESTDIR=]
#   make uninstall                   with the same variables
#   make deb                         Debian packages, in target/packages
#   make wheel                       a Python wheel, there too
#
# JEMALLOC=yes also installs masu under jemalloc's name. `make install` installs what `make` has built, so root
# needs neither cargo nor the network.

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/masu
JEMALLOC ?=
DESTDIR ?=
CARGO ?= cargo
STRIP ?= strip
# What writes manual pages and completions: the command itself, unless it is for another machine.
WRITER ?= $(MASU)

# For cargo too, whose own configuration may name another.
export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
BUILT := $(CARGO_TARGET_DIR)/release
MASU := $(BUILT)/masu
# What masu bench measures and traces with.
PROGRAMS := $(PREFIX)/lib/masu
COMPLETIONS := $(PREFIX)/share
# The files for Prometheus, Grafana, systemd and Kubernetes.
OBSERVE := $(PREFIX)/share/masu/observe
observe := $(patsubst packaging/observe/%,%,$(shell find packaging/observe -type f))
library := crates/libmasu/install --prefix '$(PREFIX)' --libdir '$(LIBDIR)' --destdir '$(DESTDIR)'

.PHONY: all install uninstall deb wheel

all:
	$(CARGO) build --release --package libmasu --package masu-cli --package masu-workloads

install:
	@test -x '$(MASU)' || { echo 'make: $(MASU) is not built: run make first' >&2; exit 1; }
	STRIP='$(STRIP)' $(library) --from '$(BUILT)' $(if $(JEMALLOC),--jemalloc)
	install -D -m 755 '$(MASU)' '$(DESTDIR)$(BINDIR)/masu'
	install -D -m 755 -t '$(DESTDIR)$(PROGRAMS)' '$(BUILT)/masu-work' '$(BUILT)/masu-trace'
	$(STRIP) '$(DESTDIR)$(BINDIR)/masu' '$(DESTDIR)$(PROGRAMS)/masu-work' '$(DESTDIR)$(PROGRAMS)/masu-trace'
	set -e; pages=$$(mktemp -d); trap 'rm -rf "$$pages"' EXIT; '$(WRITER)' man --dir "$$pages"; \
	for section in 1 3 7; do \
	    install -D -m 644 -t '$(DESTDIR)$(MANDIR)'/man$$section "$$pages"/*.$$section; \
	done
	packaging/documents '$(DESTDIR)$(DOCDIR)'
	set -e; for file in $(observe); do \
	    install -D -m 644 "packaging/observe/$$file" '$(DESTDIR)$(OBSERVE)'/"$$file"; \
	done
	install -d '$(DESTDIR)$(COMPLETIONS)/bash-completion/completions' \
	    '$(DESTDIR)$(COMPLETIONS)/zsh/site-functions' '$(DESTDIR)$(COMPLETIONS)/fish/vendor_completions.d'
	umask 022; \
	'$(WRITER)' completions bash >'$(DESTDIR)$(COMPLETIONS)/bash-completion/completions/masu' && \
	'$(WRITER)' completions zsh >'$(DESTDIR)$(COMPLETIONS)/zsh/site-functions/_masu' && \
	'$(WRITER)' completions fish >'$(DESTDIR)$(COMPLETIONS)/fish/vendor_completions.d/masu.fish'

uninstall:
	rm -f '$(DESTDIR)$(PROGRAMS)/masu-work' '$(DESTDIR)$(PROGRAMS)/masu-trace'
	$(library) --uninstall
	rmdir --ignore-fail-on-non-empty '$(DESTDIR)$(PROGRAMS)' 2>/dev/null || true
	rm -f '$(DESTDIR)$(BINDIR)/masu' \
	    '$(DESTDIR)$(MANDIR)'/man1/masu.1 '$(DESTDIR)$(MANDIR)'/man1/masu-*.1 \
	    '$(DESTDIR)$(MANDIR)'/man3/libmasu.3 '$(DESTDIR)$(MANDIR)'/man7/masu-conf.7 \
	    '$(DESTDIR)$(COMPLETIONS)/bash-completion/completions/masu' \
	    '$(DESTDIR)$(COMPLETIONS)/zsh/site-functions/_masu' \
	    '$(DESTDIR)$(COMPLETIONS)/fish/vendor_completions.d/masu.fish'
	packaging/documents --uninstall '$(DESTDIR)$(DOCDIR)'
	for file in $(observe); do rm -f '$(DESTDIR)$(OBSERVE)'/"$$file"; done
	rmdir '$(DESTDIR)$(OBSERVE)/kubernetes' '$(DESTDIR)$(OBSERVE)' '$(DESTDIR)$(PREFIX)/share/masu' 2>/dev/null || true

deb:
	packaging/deb

wheel:
	packaging/wheel
