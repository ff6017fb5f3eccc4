// USDT probes for Node, through libstapsdt.so.0 and koffi.
//
//     const app = new Provider('myapp');
//     const done = app.probe('request__done', { path: 'string', status: 'int32' });
//     app.load();
//     done.fire('/index.html', 200);
//
// Build the library with make -C cstapsdt, and put its directory into LD_LIBRARY_PATH,
// or install the library.
'use strict';

const koffi = require('koffi');

const MEMFD_DISABLED = 0;

const library = koffi.load('libstapsdt.so.0');
const providerInit = library.func('void *providerInit(str name)');
koffi.struct('SDTArgument_t', { name: 'str', type: 'int' });
const providerAddNamedProbe = library.func(
  'void *providerAddNamedProbe(void *provider, str name, int count, SDTArgument_t *arguments)');
const providerUseMemfd = library.func('int providerUseMemfd(void *provider, int option)');
const providerLoad = library.func('int providerLoad(void *provider)');
const providerUnload = library.func('int providerUnload(void *provider)');
const providerError = library.func('str providerError(void *provider)');
const probeFire = library.func('void probeFire(void *probe, ...)');
const probeIsEnabled = library.func('int probeIsEnabled(void *probe)');

// For each type: the library's number, koffi's type of the word, and what throws an exception if
// a value is wrong. A string is passed as a copy that ends with a NUL and lives until the call
// returns: str(arg0) in bpftrace.
const types = { string: { number: 16, word: 'str', check: checkString } };
for (const bits of [8, 16, 32, 64]) {
  types[`uint${bits}`] = { number: bits / 8, word: 'uint64_t', check: checkInteger(bits, BigInt.asUintN) };
  types[`int${bits}`] = { number: -bits / 8, word: 'int64_t', check: checkInteger(bits, BigInt.asIntN) };
}

function checkString(value) {
  if (typeof value !== 'string') throw new TypeError(`${value} is no string`);
}

function checkInteger(bits, wrap) {
  return (value) => {
    if (typeof value !== 'bigint' && !Number.isSafeInteger(value)) throw new TypeError(`${value} is no safe integer`);
    if (wrap(bits, BigInt(value)) !== BigInt(value)) throw new RangeError(`${value} needs more than the type's ${bits} bits`);
  };
}

// A probe. Provider.probe returns one.
class Probe {
  #probe;
  #name;
  #types;

  constructor(probe, name, argumentTypes) {
    this.#probe = probe;
    this.#name = name;
    this.#types = argumentTypes;
  }

  // Whether a tracer is attached, or the probe is recorded or watched.
  get enabled() {
    return probeIsEnabled(this.#probe) === 1;
  }

  // Reports an event. The values are checked whether a tracer is attached or not, so that a
  // wrong one throws its exception in tests too.
  fire(...values) {
    if (values.length !== this.#types.length) {
      throw new TypeError(`${this.#name} takes ${this.#types.length} arguments, but ${values.length} were given`);
    }
    this.#types.forEach((type, i) => type.check(values[i]));
    if (!this.enabled) return;
    probeFire(this.#probe, ...this.#types.flatMap((type, i) => [type.word, values[i]]));
  }
}

// A set of probes that are loaded together. It is unloaded when the program ends, and lives as
// long as the program.
class Provider {
  #provider;
  #unload = () => this.unload();

  constructor(name) {
    this.#provider = providerInit(name);
    if (!this.#provider) throw new Error(`no provider '${name}'`);
    // In a file, because bpftrace -p from 0.25 on does not find probes in memory.
    this.#check(providerUseMemfd(this.#provider, MEMFD_DISABLED) === 1);
  }

  // Adds a probe with the types of its arguments. The provider must not be loaded.
  probe(name, definition = {}) {
    const names = Object.values(definition);
    const unknown = names.find((type) => !Object.hasOwn(types, type));
    if (unknown !== undefined) throw new TypeError(`no type '${unknown}'`);
    const argumentTypes = names.map((type) => types[type]);
    const named = Object.keys(definition)
      .map((argument, i) => ({ name: argument, type: argumentTypes[i].number }));
    const probe = providerAddNamedProbe(this.#provider, name, named.length, named);
    this.#check(probe);
    return new Probe(probe, name, argumentTypes);
  }

  // Shows the probes to tracers.
  load() {
    this.#check(providerLoad(this.#provider) === 0);
    process.once('exit', this.#unload);
  }

  // Hides the probes, and removes their file. They can be fired, but do nothing.
  unload() {
    process.off('exit', this.#unload);
    this.#check(providerUnload(this.#provider) === 0);
  }

  #check(good) {
    if (!good) throw new Error(providerError(this.#provider));
  }
}

module.exports = { Provider };
