<?php

// USDT probes for PHP, through libstapsdt.so.0 and FFI.
//
//     $app = new Stapsdt\Provider('myapp');
//     $done = $app->probe('request__done',
//         ['path' => Stapsdt\Type::String, 'status' => Stapsdt\Type::Int32]);
//     $app->load();
//     $done->fire('/index.html', 200);
//
// Build the library with make -C cstapsdt, and put its directory into LD_LIBRARY_PATH,
// or install the library.

declare(strict_types=1);

namespace Stapsdt;

// An error of the library, with its text.
class Error extends \RuntimeException
{
}

// The type of an argument, with the library's number. A string is passed as its address, and
// PHP ends each string with a NUL: str(arg0) in bpftrace.
enum Type: int
{
    case String = 16;
    case Uint8 = 1;
    case Uint16 = 2;
    case Uint32 = 4;
    case Uint64 = 8;
    case Int8 = -1;
    case Int16 = -2;
    case Int32 = -4;
    case Int64 = -8;

    // Throws an exception if an argument of this type cannot have the value. PHP has no integers
    // above PHP_INT_MAX, nor has a Uint64.
    public function check(mixed $value): void
    {
        if ($this === self::String ? !is_string($value) : !is_int($value)) {
            throw new \TypeError(get_debug_type($value) . " is no {$this->name}");
        }
        if ($this === self::String) {
            return;
        }
        $positive = (int) ($this->value > 0 && $this->value < 8);
        $largest = PHP_INT_MAX >> 64 - 8 * abs($this->value) - $positive;
        if ($value > $largest || $value < ($this->value > 0 ? 0 : -$largest - 1)) {
            throw new \ValueError("$value is no {$this->name}");
        }
    }
}

// A probe. Provider::probe returns one.
final class Probe
{
    private array $types;

    public function __construct(private \FFI\CData $probe, private string $name, Type ...$types)
    {
        $this->types = $types;
    }

    // Reports whether a tracer is attached, or the probe is recorded or watched.
    public function enabled(): bool
    {
        return Provider::library()->probeIsEnabled($this->probe) === 1;
    }

    // Reports an event. The values are checked whether a tracer is attached or not, so that a
    // wrong one throws its exception in tests too.
    public function fire(int|string ...$values): void
    {
        if (count($values) !== count($this->types)) {
            throw new \ArgumentCountError("{$this->name} takes " . count($this->types)
                . ' arguments, but ' . count($values) . ' were given');
        }
        foreach ($this->types as $i => $type) {
            $type->check($values[$i]);
        }
        if ($this->enabled()) {
            Provider::library()->probeFire($this->probe, ...$values);
        }
    }
}

// A set of probes that are loaded together. It is unloaded when the program ends, and lives as
// long as the program.
final class Provider
{
    private const MEMFD_DISABLED = 0;

    private \FFI\CData $provider;

    // The functions of the library.
    public static function library(): \FFI
    {
        static $library = null;
        return $library ??= \FFI::cdef('
            void *providerInit(const char *name);
            typedef struct { const char *name; int type; } SDTArgument_t;
            void *providerAddNamedProbe(
                void *provider, const char *name, int count, const SDTArgument_t *arguments);
            int providerUseMemfd(void *provider, int option);
            int providerLoad(void *provider);
            int providerUnload(void *provider);
            const char *providerError(const void *provider);
            void probeFire(void *probe, ...);
            int probeIsEnabled(void *probe);
        ', 'libstapsdt.so.0');
    }

    public function __construct(string $name)
    {
        $this->provider = self::library()->providerInit($name) ?? throw new Error("no provider '$name'");
        // In a file, because bpftrace -p from 0.25 on does not find probes in memory.
        $this->require(
            self::library()->providerUseMemfd($this->provider, self::MEMFD_DISABLED) === 1);
    }

    // Adds a probe with the types of its arguments, by their names. The provider must not be
    // loaded.
    public function probe(string $name, array $types = []): Probe
    {
        $arguments = self::library()->new('SDTArgument_t[' . max(1, count($types)) . ']');
        $texts = []; // must live until the library has copied them
        foreach (array_keys($types) as $i => $argument) {
            $texts[$i] = self::library()->new('char[' . strlen($argument) + 1 . ']');
            \FFI::memcpy($texts[$i], $argument, strlen($argument));
            $arguments[$i]->name = \FFI::addr($texts[$i][0]);
            $arguments[$i]->type = $types[$argument]->value;
        }
        $probe = self::library()->providerAddNamedProbe(
            $this->provider, $name, count($types), $arguments);
        $this->require($probe !== null);
        return new Probe($probe, $name, ...array_values($types));
    }

    // Shows the probes to tracers. Unlike a destructor, the function also runs after a fatal error.
    public function load(): void
    {
        $this->require(self::library()->providerLoad($this->provider) === 0);
        register_shutdown_function(fn() => self::library()->providerUnload($this->provider));
    }

    // Hides the probes, and removes their file. They can be fired, but do nothing.
    public function unload(): void
    {
        $this->require(self::library()->providerUnload($this->provider) === 0);
    }

    private function require(bool $good): void
    {
        if (!$good) {
            throw new Error(self::library()->providerError($this->provider));
        }
    }
}
