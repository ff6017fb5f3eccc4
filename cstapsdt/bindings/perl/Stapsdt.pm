package Stapsdt;

# USDT probes for Perl, through libstapsdt.so.0 and FFI::Platypus.
#
#     my $app  = Stapsdt->new('myapp');
#     my $done = $app->probe('request__done', path => 'string', status => 'int32');
#     $app->load;
#     $done->fire('/index.html', 200);
#
# Build the library with make -C cstapsdt, and put its directory into LD_LIBRARY_PATH,
# or install the library.

use v5.20;
use warnings;
use Carp qw(croak);
use FFI::Platypus 2.00;
use List::Util qw(pairvalues);

use constant MEMFD_DISABLED => 0;

# For each type: the library's number, how pack writes a word, and the least and the largest
# value. A string is passed as the address of bytes that end with a NUL: str(arg0) in bpftrace.
my %types = (
    string => [16, 'p'],
    map {
        my $bits = $_;
        my $largest = ~0 >> 64 - $bits;
        my $half = $largest >> 1;
        ("uint$bits" => [$bits / 8, 'Q', 0, $largest],
            "int$bits" => [-$bits / 8, 'q', -$half - 1, $half])
    } 8, 16, 32, 64
);

my $ffi = FFI::Platypus->new(api => 2, lib => 'libstapsdt.so.0');
$ffi->attach(providerInit => ['string'] => 'opaque');
$ffi->attach(providerAddNamedProbe => ['opaque', 'string', 'int', 'string'] => 'opaque');
$ffi->attach(providerUseMemfd => ['opaque', 'int'] => 'int');
$ffi->attach(providerLoad => ['opaque'] => 'int');
$ffi->attach(providerUnload => ['opaque'] => 'int');
$ffi->attach(providerDestroy => ['opaque'] => 'void');
$ffi->attach(providerError => ['opaque'] => 'string');
$ffi->attach(probeFireV => ['opaque', 'string'] => 'void');
$ffi->attach(probeIsEnabled => ['opaque'] => 'int');

my %loaded; # the loaded providers, which are unloaded when the program ends

# Stapsdt->new(NAME) returns a provider: a set of probes that are loaded together.
sub new {
    my ($class, $name) = @_;
    my $self = bless {provider => providerInit($name) // croak "no provider '$name'"}, $class;
    # In a file, because bpftrace -p from 0.25 on does not find probes in memory.
    return $self->_check(providerUseMemfd($self->{provider}, MEMFD_DISABLED) == 1);
}

# probe(NAME, ARGUMENT => TYPE, ...) adds a probe. The provider must not be loaded.
sub probe {
    my ($self, $name, @arguments) = @_; # the names in it live until they are copied
    my @names = pairvalues @arguments;
    my @types = map { $types{$_} // croak "no type '$_'" } @names;
    $arguments[2 * $_ + 1] = $types[$_][0] for 0 .. $#types;
    my $probe = providerAddNamedProbe(
        $self->{provider}, $name, scalar @types, pack '(pix4)*', @arguments);
    $self->_check($probe);
    # The probe refers to its provider, which owns it and must live as long.
    return bless {
        owner => $self, probe => $probe, name => $name, names => \@names, types => \@types,
    }, 'Stapsdt::Probe';
}

# load shows the probes to tracers.
sub load {
    my ($self) = @_;
    $self->_check(providerLoad($self->{provider}) == 0);
    return $loaded{0 + $self} = $self;
}

# unload hides the probes, and removes their file. They can be fired, but do nothing.
sub unload {
    my ($self) = @_;
    delete $loaded{0 + $self};
    return $self->_check(providerUnload($self->{provider}) == 0);
}

sub _check {
    my ($self, $good) = @_;
    return $self if $good;
    croak providerError($self->{provider});
}

sub DESTROY {
    my ($self) = @_;
    providerDestroy($self->{provider}) unless ${^GLOBAL_PHASE} eq 'DESTRUCT';
}

# A new thread gets no copies, which would free the provider once more.
sub CLONE_SKIP { 1 }

END {
    providerUnload($_->{provider}) for values %loaded;
}

package Stapsdt::Probe;

use Carp qw(croak);
use Scalar::Util qw(looks_like_number);

sub CLONE_SKIP { 1 }

# enabled reports whether a tracer is attached, or the probe is recorded or watched.
sub enabled { Stapsdt::probeIsEnabled($_[0]{probe}) }

# fits reports whether a word has a number. As floating-point numbers, those at the ends of 64 bits
# are equal to others.
sub fits {
    my ($pack, $value) = @_;
    return 1 if abs $value < 2**53;
    my $word = unpack $pack, pack $pack, $value;
    return $word eq ($value =~ /^-?\d+$/ ? $value : sprintf '%.0f', $value);
}

# fire(VALUE...) reports an event. The values are checked whether a tracer is attached or not,
# so that a wrong one dies in tests too.
sub fire {
    my ($self, @values) = @_; # these copies live until the probe has fired
    my $types = $self->{types};
    croak "$self->{name} takes " . @$types . " arguments, but " . @values . " were given" unless @values == @$types;
    for my $i (0 .. $#values) {
        my (undef, $pack, $least, $largest) = @{$types->[$i]};
        my $value = $values[$i];
        next if defined $value && !ref $value && ($pack eq 'p' || looks_like_number($value)
            && $value >= $least && $value <= $largest && $value == int $value
            && fits($pack, $value));
        croak "argument $i of $self->{name}, '" . ($value // 'undef') . "', is no $self->{names}[$i]";
    }
    return unless $self->enabled;
    Stapsdt::probeFireV($self->{probe}, pack join('', map { $_->[1] } @$types), @values);
    return;
}

1;
