# SPDX-License-Identifier: BSD-3-Clause
# make             every program into build/bin, installs nothing
# make demo        what it needs, then the main job from start to end
# make check       what it needs, then every test
# make check-long  the same with ten times the loops (any SCALE=N works)
# make policy-report SEEDS=n   the polling policy's targets, in simulation
# make bench-polling   what is claimed of polling and needs a clock; LINES=4,5
# make check-xen   the cases of tests/xenlab on a real Xen in QEMU; CASES="A B"
# make fuzz        each of tests/fuzz_*.c for FUZZ_SECONDS, with clang
# make install     DESTDIR and PREFIX as everywhere; UNITS is systemd's folder
# SAN=1 builds beside, under ASan and UBSan.  CC=clang works too.  V=1 shows
# whole commands.

O := build$(if $(SAN),-san)$(if $(filter clang%,$(CC)),-clang)
BASE := -std=gnu11 -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes \
	-D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. -pthread -MMD -MP
CFLAGS ?= -O2 -g
SANFLAGS := $(if $(SAN),-fsanitize=address -fsanitize=undefined \
	-fno-omit-frame-pointer -fno-sanitize-recover=undefined)
PREFIX ?= /usr
UNITS ?= /lib/systemd/system
quiet = $(if $(V),,@echo "  $(1)" $(if $(2),$(2),$@);)
SCALE ?= 1

LAYERS := tools/ctl ring drivers evtchn poll
LIBS := $(foreach l,$(LAYERS),$(O)/lib$(notdir $(l)).a)
LINK := -laio -lxenevtchn -lxengnttab -ljson-c
PROGRAMS := $(O)/bin/tapdisk $(O)/bin/tap-ctl $(O)/bin/tapback \
	$(O)/bin/blkfront-bench $(O)/bin/sqlite-bench $(O)/bin/polling-sim
TESTS := $(patsubst tests/%.c,$(O)/tests/%,$(wildcard tests/test_*.c))

objs = $(patsubst %.c,$(O)/%.o,$(wildcard $(1)/*.c))

# What tests and benchmarks share: all of tests/ that has no main.
MAINS := $(wildcard tests/test_*.c tests/fuzz_*.c tests/bench/*_bench.c)
SHARED := $(patsubst %.c,$(O)/%.o,$(filter-out $(MAINS),\
	$(wildcard tests/*.c tests/bench/*.c)))

all: $(PROGRAMS)

tests: all $(TESTS)

define layer
$(O)/lib$(notdir $(1)).a: $(call objs,$(1))
endef
$(foreach l,$(LAYERS),$(eval $(call layer,$(l))))
$(O)/libtests.a: $(SHARED)

$(O)/lib%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(call quiet,AR)$(AR) qcs $@ $^

$(O)/%.o: %.c
	@mkdir -p $(@D)
	$(call quiet,CC,$<)$(CC) $(BASE) $(CPPFLAGS) $(CFLAGS) $(WERROR) $(SANFLAGS) -c -o $@ $<

define link
@mkdir -p $(@D)
$(call quiet,LD)$(CC) -pthread $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) \
	-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LINK) $(LDLIBS)
endef

$(O)/bin/tapdisk: $(call objs,tools/tapdisk) $(LIBS)
$(O)/bin/tap-ctl: $(call objs,tools/tap-ctl) $(LIBS)
$(O)/bin/tap-ctl: LINK += -lm
$(O)/bin/polling-sim: $(call objs,tools/polling-sim) $(LIBS)
$(O)/bin/polling-sim: LINK += -lm
# A trace is to be the same on machines that could fuse.
$(O)/tools/polling-sim/%.o: BASE += -ffp-contract=off
$(O)/bin/tapback: $(call objs,tools/tapback) $(LIBS)
$(O)/bin/tapback: LINK += -lxenstore -lxenctrl
$(O)/bin/blkfront-bench: $(O)/tests/bench/blkfront_bench.o $(O)/libtests.a \
	$(LIBS)
$(O)/bin/blkfront-bench: LINK += -lm
$(O)/bin/sqlite-bench: $(O)/tests/bench/sqlite_bench.o $(O)/libtests.a $(LIBS)
$(O)/bin/sqlite-bench: LINK += -lsqlite3 -lm

$(O)/bin/%:
	$(link)

$(O)/tests/xenlab/plug: LINK += -lxenstore
$(O)/tests/xenlab/plug: $(O)/tests/xenlab/plug.o $(LIBS)
	$(link)
$(O)/tests/test_%: LINK += -lsqlite3 -lcheck -lsubunit -lm -lrt
$(O)/tests/test_%: $(O)/tests/test_%.o $(O)/libtests.a $(LIBS)
	$(link)
$(O)/tests/test_incoming: $(O)/tools/tapdisk/incoming.o
$(O)/tests/test_stats: $(O)/tools/tapdisk/stats.o
$(O)/tests/test_nbd_wire: $(O)/tools/tapdisk/nbd_wire.o
$(O)/tests/test_nbd_handshake: $(O)/tools/tapdisk/nbd_handshake.o
$(filter $(O)/tests/test_tapback%,$(TESTS)): \
	$(filter-out %/main.o %_xen.o,$(call objs,tools/tapback))

$(O)/tests/bench/policy_bench: LINK += -lm
$(O)/tests/bench/policy_bench: $(O)/tests/bench/policy_bench.o $(LIBS)
	$(link)

# They include the code that they try, so that all of it is instrumented.
FUZZERS := $(patsubst tests/%.c,build-fuzz/%,$(wildcard tests/fuzz_*.c))
FUZZ_SECONDS ?= 20
build-fuzz/fuzz_vhd: drivers/vhd_format.c drivers/vhd_format_locator.c
build-fuzz/%: tests/%.c
	@mkdir -p $(@D)
	$(call quiet,LD)clang $(filter-out -MMD -MP,$(BASE)) -O1 -g \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined -o $@ $^

# What it finds beyond the corpus of the tree stays in build-fuzz.
fuzz: $(FUZZERS)
	@for f in $(notdir $(FUZZERS)); do \
		mkdir -p build-fuzz/$$f.corpus && \
		build-fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=5 \
			-rss_limit_mb=512 -max_len=65536 -verbosity=0 \
			-print_final_stats=1 -artifact_prefix=build-fuzz/ \
			build-fuzz/$$f.corpus tests/data/$$f || exit 1; \
	done

# Each is a no-op, without a call of apt, where all is there already.
deps:
	@tests/deps build

check-deps:
	@tests/deps build check

check: check-deps
	@$(MAKE) --no-print-directory tests
	@SAN=$(SAN) SCALE=$(SCALE) tests/run -b $(O)

check-long:
	@$(MAKE) --no-print-directory check SCALE=10

policy-report: $(O)/bin/polling-sim
	@BUILD=$(CURDIR)/$(O) python3 -B tests/policy_targets.py $(SEEDS)

# Tests that can have their guest on a real Xen, too: tests/xenlab/dom0 runs
# them there.
XEN_TESTS := $(addprefix $(O)/tests/test_,guest_memory guest_events \
	vbd_requests vbd_life vbd_polling)

# Apart from make check, because it is slow and needs QEMU.
check-xen: check-deps
	@$(MAKE) --no-print-directory all $(XEN_TESTS) $(O)/tests/xenlab/plug
	@SAN=$(SAN) tests/xenlab/check -b $(O) $(CASES)

demo: deps
	@$(MAKE) --no-print-directory all
	@BUILD=$(CURDIR)/$(O) tests/demo

# Nothing else should run meanwhile.  It prints as it goes, a row a claim.
bench-polling: check-deps
	@$(MAKE) --no-print-directory all
	@BUILD=$(CURDIR)/$(O) PYTHONDONTWRITEBYTECODE=1 tests/bench/polling \
		$(if $(LINES),--lines $(LINES)) $(if $(QUICK),--quick) $(BENCHFLAGS)

# tap-ctl starts the tapdisk in ../libexec, seen from where it lies.
install: all
	install -D -m 755 $(O)/bin/tap-ctl $(DESTDIR)$(PREFIX)/sbin/tap-ctl
	install -D -m 755 $(O)/bin/tapdisk $(DESTDIR)$(PREFIX)/libexec/tapdisk
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 755 $(O)/bin/tapback $(O)/bin/blkfront-bench \
		$(O)/bin/sqlite-bench $(O)/bin/polling-sim \
		$(DESTDIR)$(PREFIX)/bin
	install -D -m 644 -t $(DESTDIR)$(UNITS) tools/tapback/tapback.service
	install -m 644 docs/*.8 $(DESTDIR)$(PREFIX)/share/man/man8

clean:
	rm -rf build build-*

.PHONY: all tests deps check-deps check check-long check-xen policy-report \
	bench-polling fuzz demo install clean
.SECONDARY:
-include $(shell find $(O) -name '*.d' 2>/dev/null)
