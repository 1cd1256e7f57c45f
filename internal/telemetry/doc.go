// Package telemetry reports how much a server does, and nothing else, to whoever its operator names. It is
// off unless there is a URL. docs/telemetry.md is the same for users.
//
//	POST URL
//	Content-Type: application/json
//	User-Agent: tailrace/v1.2.3
//
//	{"report":1,"version":"v1.2.3","uptimeSeconds":28812,"streams":3,"remotes":2,"queueBytes":1048576}
//
// These six are all fields, and all but the version are numbers: no names, no URLs, no data, no identity of
// the installation. The number report is that of this form.
//
// Reports are sent once per interval, each after a random time around it, and the first after a random part
// of it, so that a fleet that starts at once does not report at once. A report that fails is not sent again;
// it is a line of the debug log.
package telemetry
