# SPDX-License-Identifier: Apache-2.0
# Builds the plugin against an installed Cadre, found through pkg-config:
#
#   make                 yourname.so
#   make check           trains with it and compares (seconds)
#   make conform         cadre check: what any plugin must keep, and the level it reached,
#                        recorded in yourname.check.json for `cadre plugins`
#   make asan            trains with it under AddressSanitizer
#   make install         into your own folder of plugins, where every Cadre looks, with
#                        the record
#
# A Cadre elsewhere: PKG_CONFIG_PATH=PREFIX/lib/pkgconfig make
PKG_CONFIG = pkg-config
CADRE_CFLAGS = $(shell $(PKG_CONFIG) --cflags cadre)
CADRE = $(shell $(PKG_CONFIG) --variable=cadre cadre)
# Where the plugins of this user lie.
DATA_HOME = $(if $(XDG_DATA_HOME),$(XDG_DATA_HOME),$(HOME)/.local/share)
PLUGINDIR = $(DATA_HOME)/cadre/plugins

CFLAGS = -O2 -g
WARNINGS = -Wall -Wextra -pedantic
BUILD = $(CC) -std=c11 $(CADRE_CFLAGS) $(WARNINGS) $(CFLAGS) -fPIC -fvisibility=hidden \
	-shared
INSTALL = install

yourname.so: yourname.c
	$(BUILD) -Wl,-z,defs $(LDFLAGS) -o $@ yourname.c

check: yourname.so
	CADRE='$(CADRE)' ./test.sh

conform: yourname.so
	$(CADRE) check ./yourname.so

# The sanitizer must be loaded before the program, which has none. Leaks are not reported:
# the host keeps plugins open until it ends.
asan: yourname.c
	rm -rf asan
	mkdir asan
	$(BUILD) -fsanitize=address -fno-omit-frame-pointer -o asan/yourname.so yourname.c
	LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
		$(CADRE) train yourname.ini --out asan/run --set strategy.plugin_path=asan

install: yourname.so
	$(INSTALL) -d '$(DESTDIR)$(PLUGINDIR)'
	$(INSTALL) yourname.so '$(DESTDIR)$(PLUGINDIR)'
	test ! -e yourname.check.json || \
		$(INSTALL) -m 644 yourname.check.json '$(DESTDIR)$(PLUGINDIR)'

clean:
	rm -rf yourname.so yourname.check.json asan

.PHONY: asan check clean conform install
