# Words, hashes and regular expressions.
use strict;
use warnings;
use Digest::MD5 'md5_hex';
use Storable qw(freeze thaw);

srand 42;
my @words = map { join "", map { chr 97 + int rand 12 } 1 .. 1 + int rand 30 } 1 .. 120_000;
my %count;
$count{substr $_, 0, 3} .= $_ for @words;
print md5_hex(join "\n", map { "$_ " . length $count{$_} } sort keys %count), "\n";
my $text = join " ", @words;
my $matches = () = $text =~ /a[b-f]{2,5}k/g;
print "$matches\n";
$text =~ s/([aeiou])(\w+)/<$2$1>/g;
print md5_hex($text), " ", length $text, "\n";
my $copy = thaw freeze { words => \@words, count => \%count };
print scalar @{ $copy->{words} }, "\n";
my (@kept, $sum);
for my $step (1 .. 400_000) {
    push @kept, "x" x (($step * 7919) % 700);
    splice @kept, ($step * 31) % @kept, 1 if @kept > 2000;
}
$sum += length for @kept;
print "$sum\n";
