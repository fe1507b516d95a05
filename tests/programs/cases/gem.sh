# A gem with an extension in C: built, packed, installed, and used in an application through bundler.
packages='ruby ruby-dev bundler gcc make libc6-dev'
needs='ruby gem bundle gcc make /usr/share/doc/ruby-dev'
maps='ruby make cc1 ld'
limit=240
# The build time appears in the output.
stderr=varies

prepare() {
    mkdir -p native/ext/native native/lib app
    cat >native/ext/native/native.c <<'C'
#include <ruby.h>
#include <stdlib.h>
static VALUE sum(VALUE self, VALUE list) {
    long n = RARRAY_LEN(list), total = 0;
    long *copy = malloc((size_t)(n ? n : 1) * sizeof *copy);
    for (long i = 0; i < n; i++) copy[i] = NUM2LONG(rb_ary_entry(list, i));
    for (long i = 0; i < n; i++) total += copy[i];
    free(copy);
    return LONG2NUM(total);
}
static VALUE grown(VALUE self, VALUE size) {
    long n = NUM2LONG(size);
    char *text = NULL;
    for (long i = 1; i <= n; i++) { text = ruby_xrealloc(text, (size_t)i); text[i - 1] = (char)('a' + i % 26); }
    VALUE string = rb_str_new(text, n);
    ruby_xfree(text);
    return string;
}
void Init_native(void) {
    VALUE module = rb_define_module("Native");
    rb_define_singleton_method(module, "sum", sum, 1);
    rb_define_singleton_method(module, "grown", grown, 1);
}
C
    printf 'require "mkmf"\ncreate_makefile "native/native"\n' >native/ext/native/extconf.rb
    printf 'require "native/native"\n' >native/lib/native.rb
    cat >native/native.gemspec <<'RUBY'
Gem::Specification.new do |s|
  s.name, s.version, s.summary, s.authors = "native", "1.2.3", "an extension", ["A"]
  s.files = ["lib/native.rb", "ext/native/native.c", "ext/native/extconf.rb"]
  s.extensions = ["ext/native/extconf.rb"]
  s.license, s.homepage = "MIT", "https://example.org"
end
RUBY
    printf 'source "https://rubygems.org"\ngem "native", "1.2.3"\n' >app/Gemfile
    printf 'require "bundler/setup"\nrequire "native"\nputs Native.sum((1..100_000).to_a), Native.grown(3000).sum\n' >app/app.rb
}

measure() {
    export GEM_HOME=$PWD/gems GEM_PATH=$PWD/gems BUNDLE_USER_HOME=$PWD/bundle SOURCE_DATE_EPOCH=1700000000
    export BUNDLE_DISABLE_VERSION_CHECK=true BUNDLE_SILENCE_ROOT_WARNING=true BUNDLE_FROZEN=false
    cp -r "$shared/native" "$shared/app" .
    (cd native && gem build -q native.gemspec)
    gem install --local --no-document --quiet native/native-1.2.3.gem | grep -v '^Building'
    gem list --local --quiet native
    ruby -rnative -e 'puts Native.sum([1, 2, 3])'
    (cd app && bundle install --local --quiet && bundle exec ruby app.rb && bundle list | sed 's/ at .*//')
    rm -rf gems native bundle app
}
