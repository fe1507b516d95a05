'use strict';

const path = require('path');

const machine = { x64: 'x86_64', arm64: 'aarch64' }[process.arch];
const file = (name) => path.join(__dirname, 'native', String(machine), name);

/** The path of the shared library, for `LD_PRELOAD`. */
exports.library = file('lib/libmasu.so.0');

/** The path of the command. */
exports.command = file('bin/masu');
