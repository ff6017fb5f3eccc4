# Loses its tracer in the middle of a hook, where a signal can come at any time.

use v5.20;
use warnings;

my $traced = 1;
{
    no warnings 'redefine';
    *Stapsdt::Probe::enabled = sub { $traced };
    my $place = \&Functions::_place;
    *Functions::_place = sub {
        my $found = $place->(@_);
        $traced = 0;
        Functions::ask();
        return $found;
    };
}

sub leaf { return $_[0] + 1 }

Functions::ask();
say leaf(41), Functions::tracing() ? ' traced' : ' idle';
