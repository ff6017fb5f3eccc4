use v5.20;
use warnings;
use utf8;
use Stapsdt;

$| = 1;

sub refused {
    my ($name, $call) = @_;
    say "$name ", eval { $call->(); 1 } ? 'accepted' : $@ =~ / at \S+check\.pl line/ ? 'died' : $@;
}

my $app = Stapsdt->new('languages');
my $values = $app->probe('values', text => 'string', byte => 'uint8', tiny => 'int8', number => 'int32', big => 'uint64', low => 'int64');
my $texts = $app->probe('texts', left => 'string', right => 'string');
my $none = $app->probe('none');
refused(nameless => sub { Stapsdt->new('') });
refused(many => sub { $app->probe('many', map { ("a$_" => 'uint8') } 0 .. 12) });
$values->fire('not loaded', 1, 1, 1, 1, 1);
for my $beyond ([2**64, 1], ['18446744073709551616', 1], [1, 2**63], [1, '-9223372036854775809'], [1, '9223372036854775807.0']) {
    die "@$beyond are taken" if eval { $values->fire('one', 2, 3, 4, @$beyond); 1 };
}
$values->fire('one', 2, 3, 4, @$_) for ['18446744073709551615', '9223372036854775807'], [~0, -2**63], [1e19, 1e18];
$app->load;

sub wrong {
    refused(late => sub { $app->probe('late') });
    refused(count => sub { $texts->fire('one') });
    refused(text => sub { $texts->fire('one', undef) });
    refused(number => sub { $values->fire('one', 'two', 3, 4, 5, 6) });
    refused(large => sub { $values->fire('one', 256, 3, 4, 5, 6) });
    refused(small => sub { $values->fire('one', 2, -129, 4, 5, 6) });
    refused(fraction => sub { $values->fire('one', 2, 3.5, 4, 5, 6) });
}

sub enabled { say 'enabled ', $values->enabled ? 'true' : 'false' }

enabled();
wrong();
say 'ready';
<STDIN>;
enabled();
wrong();
$values->fire('grüße', 200, -100, -2000000000, 9007199254740993, -9007199254740993);
$none->fire;
$texts->fire('left ' x 10 . $_, 'right ' x 8 . $_) for 0 .. 49;
say 'fired';
<STDIN>;
enabled();
$app->unload;
$none->fire;
$app->load;
exit 3 if $ARGV[0] eq 'exit';
die 'thrown' if $ARGV[0] eq 'throw';
