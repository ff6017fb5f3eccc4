#!/usr/bin/env node
// Works on tasks, and fires a probe after each: see README.md.
'use strict';

const { setTimeout } = require('node:timers/promises');
const { Provider } = require('./stapsdt');

async function work() {
  const tasks = new Provider('tasks');
  const done = tasks.probe('task__done',
    { task: 'string', microseconds: 'uint64', result: 'int32' });
  try {
    tasks.load();
  } catch (error) {
    console.log(`no probes: ${error.message}`); // and continue
  }
  console.log(`process ${process.pid} works`);
  for (let number = 1; ; number++) {
    const start = process.hrtime.bigint();
    await setTimeout(50);
    done.fire(`task ${number}`, (process.hrtime.bigint() - start) / 1000n, -number);
  }
}

work();
