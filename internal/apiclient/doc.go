// Package apiclient talks to the REST API of a running server, for commands and programs.
//
//	c := apiclient.New(apiclient.Config{URL: "http://127.0.0.1:8086", Token: token})
//	org, err := c.Org(ctx, "")
//	streams, err := c.Streams(ctx, org.ID)
//
// A [Document] is what the server answered, with those fields read that are of use here: written as JSON again,
// it is the server's answer, whatever the version of the server.
package apiclient
