// Package chaos tests package temporal while workers, the Temporal server and PostgreSQL are killed. It has only tests.
package chaos
