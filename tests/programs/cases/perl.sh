packages=perl
needs=perl
maps=perl

measure() {
    PERL_HASH_SEED=0 perl -Mthreads -Mstrict -Mwarnings -MDigest::MD5=md5_hex -MStorable=freeze,thaw -e '
        srand 42;
        my %count;
        my @words = map { join "", map { chr 97 + int rand 12 } 1 .. 1 + int rand 30 } 1 .. 100000;
        $count{substr $_, 0, 3} .= $_ for @words;
        my $all = join "\n", map { "$_ " . length $count{$_} } sort keys %count;
        print md5_hex($all), "\n";
        my $text = join " ", @words;
        my $n = () = $text =~ /a[b-f]{2,5}k/g;
        print "$n\n";
        $text =~ s/([aeiou])(\w+)/<$2$1>/g;
        print md5_hex($text), " ", length $text, "\n";
        my $copy = thaw freeze { words => \@words, count => \%count };
        print scalar @{ $copy->{words} }, "\n";
        my @threads = map { my $seed = $_; threads->create(sub {
            my @kept; my $sum = 0;
            for my $i (1 .. 30000) {
                push @kept, "x" x (($i * 7919 + $seed) % 700);
                splice @kept, ($i * 31) % @kept, 1 if @kept > 300;
            }
            $sum += length for @kept; return $sum;
        }) } 1 .. 4;
        print $_->join, "\n" for @threads;
        for my $child (1 .. 4) {
            my $pid = open my $pipe, "-|" // die;
            if (!$pid) { print md5_hex(join ",", map { $_ * $child } 1 .. 50000), "\n"; exit }
            print <$pipe>; close $pipe;
        }
        print STDERR "done\n"; exit 7' || echo "exit $?"
}
