// Measures calls on command: "fire 1000" prints the nanoseconds of each of 1000.
'use strict';

const readline = require('node:readline');
const { Provider } = require('stapsdt');

const app = new Provider('languages');
const probe = app.probe('bench', { path: 'string', number: 'int32' });
app.load();

let last;
function nothing(text, number) {
  last = number;
}

const measures = {
  empty(calls) {
    for (let i = 0; i < calls; i++) nothing('/index.html', i);
  },
  enabled(calls) {
    for (let i = 0; i < calls; i++) last = probe.enabled;
  },
  fire(calls) {
    for (let i = 0; i < calls; i++) probe.fire('/index.html', i);
  },
};

console.log('ready');
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [name, calls] = line.split(' ');
  const start = process.hrtime.bigint();
  measures[name](Number(calls));
  console.log('took', Number(process.hrtime.bigint() - start) / Number(calls));
});
