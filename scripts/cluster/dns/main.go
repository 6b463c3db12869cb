// Answers for names of Services without an address of their own, as a cluster's DNS does: the tests on a real cluster have no image
// of a DNS server, and write down themselves where such a name leads.
//
//	dns ADDRESS:PORT FILE
//
// FILE has a line each, `name. address`, and is read anew for each question. What is not in it does not exist.
package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: dns ADDRESS:PORT FILE")
		os.Exit(2)
	}
	socket, err := net.ListenPacket("udp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bytes := make([]byte, 4096)
	for {
		n, from, err := socket.ReadFrom(bytes)
		if err != nil {
			continue
		}
		if reply, err := answer(bytes[:n], os.Args[2]); err == nil {
			_, _ = socket.WriteTo(reply, from)
		}
	}
}

// The reply to one message; what is no question has none.
func answer(asked []byte, file string) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(asked); err != nil {
		return nil, err
	}
	if message.Response || len(message.Questions) == 0 {
		return nil, fmt.Errorf("no question")
	}
	question := message.Questions[0]
	address, found := lookup(question.Name.String(), file)
	reply := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: message.ID, Response: true, Authoritative: true,
			RecursionDesired: message.RecursionDesired, RecursionAvailable: true,
		},
		Questions: message.Questions[:1],
	}
	if !found {
		reply.RCode = dnsmessage.RCodeNameError
	} else if question.Type == dnsmessage.TypeA {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return reply.Pack()
}

func lookup(name, file string) (netip.Addr, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 2 && strings.EqualFold(words[0], name) {
			if address, err := netip.ParseAddr(words[1]); err == nil && address.Is4() {
				return address, true
			}
		}
	}
	return netip.Addr{}, false
}
