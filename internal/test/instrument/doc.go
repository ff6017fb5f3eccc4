// Package instrument tests package span and the packages in instrument/ with tracers and, for
// sqlprobe, with real drivers.
package instrument
