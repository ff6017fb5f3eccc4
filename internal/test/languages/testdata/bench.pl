# Measures calls on command: "fire 1000" prints the nanoseconds of each of 1000.

use v5.20;
use warnings;
use Stapsdt;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

$| = 1;
my $app = Stapsdt->new('languages');
my $probe = $app->probe('bench', path => 'string', number => 'int32');
$app->load;

sub nothing { }

my %measures = (
    empty => sub { nothing('/index.html', $_) for 1 .. $_[0] },
    enabled => sub { $probe->enabled for 1 .. $_[0] },
    fire => sub { $probe->fire('/index.html', $_) for 1 .. $_[0] },
);

say 'ready';
while (my $line = <STDIN>) {
    my ($name, $calls) = split ' ', $line;
    my $start = clock_gettime(CLOCK_MONOTONIC);
    $measures{$name}->($calls);
    say 'took ', (clock_gettime(CLOCK_MONOTONIC) - $start) / $calls * 1e9;
}
