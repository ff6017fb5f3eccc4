// Package postgres starts servers of PostgreSQL for tests: each has an empty database in a
// temporary directory, and listens on a socket there and on no port.
package postgres
