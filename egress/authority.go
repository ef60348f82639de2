package egress

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

// An authority signs certificates for hosts that the proxy serves by itself. Its key never leaves
// the memory of this process.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, cert: &x509.Certificate{
		Subject: pkix.Name{CommonName: "proxy of this session"}, IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := a.sign(a.cert, a.cert, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// sign makes a certificate that is valid for as long as a session may last.
func (a *authority) sign(t, parent *x509.Certificate, key *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	t.SerialNumber, t.NotBefore, t.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, 90)
	return x509.CreateCertificate(rand.Reader, t, parent, key, a.key)
}

// serve returns the configuration of a server that stands for a host.
func (a *authority) serve(host string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{Subject: pkix.Name{CommonName: host}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil {
		t.IPAddresses = []net.IP{ip}
	} else {
		t.DNSNames = []string{host}
	}
	if len(host) > 64 { // the longest common name
		t.Subject.CommonName = ""
	}
	der, err := a.sign(t, a.cert, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	return &tls.Config{NextProtos: []string{"http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}

// systemRoots are where systems keep the certificates that they trust, see crypto/x509.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// roots returns the certificates of the system and that of the authority. Programs that are given
// a file trust no others.
func (a *authority) roots() ([]byte, error) {
	var system []byte
	for _, name := range append([]string{os.Getenv("SSL_CERT_FILE")}, systemRoots...) {
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte("BEGIN CERTIFICATE")) {
			system = data
			break
		}
	}
	if system == nil {
		return nil, errors.New("the certificates that the system trusts were not found: set SSL_CERT_FILE")
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return append(append(bytes.Clone(system), '\n'), own...), nil
}
