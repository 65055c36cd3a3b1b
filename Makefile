# SPDX-License-Identifier: BSD-3-Clause
# make          every program into build/bin, installs nothing
# make demo     what it needs, then the main job from start to end
# make check    what it needs, then every test
# SAN=1 builds beside, under ASan and UBSan.  CC=clang works.

O := build$(if $(SAN),-san)$(if $(filter clang%,$(CC)),-clang)
BASE := -std=gnu11 -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes \
	-D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. -pthread -MMD -MP
CFLAGS ?= -O2 -g
SANFLAGS := $(if $(SAN),-fsanitize=address -fsanitize=undefined \
	-fno-omit-frame-pointer -fno-sanitize-recover=undefined)
LAYERS := tools/ctl ring drivers evtchn poll
LIBS := $(foreach l,$(LAYERS),$(O)/lib$(notdir $(l)).a)
LINK := -Wl,--start-group $(LIBS) -Wl,--end-group \
	-laio -lxenevtchn -lxengnttab -ljson-c
PROGRAMS := $(O)/bin/tapdisk $(O)/bin/tap-ctl \
	$(O)/bin/blkfront-bench $(O)/bin/sqlite-bench
FRONTEND := $(O)/tests/frontend.o $(O)/tests/domain.o
TESTS := $(patsubst tests/%.c,$(O)/tests/%,$(wildcard tests/test_*.c))

objs = $(patsubst %.c,$(O)/%.o,$(wildcard $(1)/*.c))

all: $(PROGRAMS)

tests: all $(TESTS)

define layer
$(O)/lib$(notdir $(1)).a: $(call objs,$(1))
endef
$(foreach l,$(LAYERS),$(eval $(call layer,$(l))))

$(O)/lib%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(O)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CPPFLAGS) $(CFLAGS) $(WERROR) $(SANFLAGS) -c -o $@ $<

$(O)/bin/tapdisk: $(call objs,tools/tapdisk) $(LIBS)
$(O)/bin/tap-ctl: $(call objs,tools/tap-ctl) $(LIBS)
$(O)/bin/blkfront-bench: $(O)/tests/bench/blkfront_bench.o
$(O)/bin/sqlite-bench: $(O)/tests/bench/sqlite_bench.o

$(O)/bin/%:
	@mkdir -p $(@D)
	$(CC) -pthread $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ \
		$(filter %.o,$^) $(LINK) $(LDLIBS)

$(O)/tests/test_%: $(O)/tests/test_%.o $(FRONTEND) $(LIBS)
	$(CC) -pthread $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ \
		$(filter %.o,$^) $(LINK) -lcheck -lsubunit -lm -lrt

clean:
	rm -rf build build-*

.PHONY: all tests clean
.SECONDARY:
-include $(shell find $(O) -name '*.d' 2>/dev/null)
