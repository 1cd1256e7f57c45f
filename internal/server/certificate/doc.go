// Package certificate keeps the server's certificate: it reads the files, takes them anew when they are
// renewed, and warns before they expire.
//
//	keeper, err := certificate.Open(certificate.Config{Certificate: "cert.pem", PrivateKey: "key.pem"})
//	server := &http.Server{TLSConfig: keeper.TLS()}
//	go keeper.Watch(ctx)
//
// Whether the files have changed is looked at by a handshake, at most once a second, by [Keeper.Watch]
// once a minute, and by [Keeper.Reload] when it is called. A new pair is used from the next handshake on;
// connections that are open stay. A new pair that cannot be used (it is half written, the key is another
// certificate's, it has expired already) changes nothing but the log: the old one stays in use, and the
// files are looked at again.
package certificate
