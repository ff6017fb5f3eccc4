'use strict';

const readline = require('node:readline');
const { Provider } = require('stapsdt');

function refused(name, call) {
  try {
    call();
    console.log(name, 'accepted');
  } catch (error) {
    console.log(name, error.constructor.name);
  }
}

const app = new Provider('languages');
const values = app.probe('values', { text: 'string', byte: 'uint8', tiny: 'int8', number: 'int32', big: 'uint64', low: 'int64' });
const texts = app.probe('texts', { left: 'string', right: 'string' });
const none = app.probe('none');
refused('nameless', () => new Provider(''));
refused('many', () => app.probe('many', Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`a${i}`, 'uint8']))));
values.fire('not loaded', 1, 1, 1, 1, 1);
app.load();

function wrong() {
  refused('late', () => app.probe('late'));
  refused('count', () => texts.fire('one'));
  refused('text', () => texts.fire('one', 2));
  refused('number', () => values.fire('one', '2', 3, 4, 5, 6));
  refused('large', () => values.fire('one', 256, 3, 4, 5, 6));
  refused('small', () => values.fire('one', 2, -129, 4, 5, 6));
  refused('fraction', () => values.fire('one', 2, 3.5, 4, 5, 6));
}

async function main() {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log('enabled', values.enabled);
  wrong();
  console.log('ready');
  await lines.next();
  console.log('enabled', values.enabled);
  wrong();
  values.fire('grüße', 200, -100, -2000000000, 9007199254740993n, -9007199254740993n);
  none.fire();
  for (let i = 0; i < 50; i++) texts.fire('left '.repeat(10) + i, 'right '.repeat(8) + i);
  console.log('fired');
  await lines.next();
  console.log('enabled', values.enabled);
  app.unload();
  none.fire();
  app.load();
  if (process.argv[2] === 'exit') process.exit(3);
  if (process.argv[2] === 'throw') throw new Error('thrown');
  process.stdin.destroy();
}

main();
