# Lists of words, and 33,000 rules that make no file.
digits := 0 1 2 3 4 5 6 7 8 9
numbers := $(foreach a,0 1 2,$(foreach b,$(digits),$(foreach c,$(digits),$(foreach d,$(digits),$a$b$c$d))))

$(foreach n,$(numbers),$(eval file-$n: $(addprefix part-$n-,$(digits)) ;))
$(foreach n,$(numbers),$(foreach d,$(digits),$(eval part-$n-$d: $(if $(filter 9,$d),,part-$n-9) ;)))

words := $(sort $(foreach n,$(numbers),$(addsuffix -$n,$(subst 1,one,$(subst 7,seven,$n)) $(digits))))

all: $(addprefix file-,$(numbers))
	$(info $(words $(words)) words from $(firstword $(words)) to $(lastword $(words)))
	$(info $(patsubst %-2999,%,$(filter %-2999,$(words))))
	@:
