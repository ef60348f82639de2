// Package catalog has data about models: their context sizes, longest answers, prices and
// abilities.
//
//	known := catalog.Default()
//	info, ok := known.Lookup("anthropic", "claude-sonnet-4-5-20250929")
//	fmt.Println(info.Context, info.MaxOutput, ok)
//
// The data is in the file models.json in this package. For each provider, the file says when and
// where the figures were read. Prices change without notice: only the provider's bill is exact,
// and a cost that is computed from this data is an estimate.
//
// # The cost of a response
//
// To compute the cost of a response, look up the model that answered, [aycoder.Response.Model],
// and not the model that was requested. A name without a date, a name that ends in "-latest", or
// the name of a retired model may be answered, and billed, by another model. On Bedrock,
// Response.Model is the name given by the model's maker and not by the provider; there, look up
// the requested model.
//
//	if info, ok := known.Lookup(provider, resp.Model); ok && info.Price != nil {
//		dollars += resp.Usage.Cost(*info.Price)
//	}
//
// Compute the cost of each request of a run separately. A long request may cost more for each
// token ([aycoder.Price.Long]), but a sum of several short requests must not be priced as a long
// one. A nil Price means that the price is unknown, and a Price of zeros means that the model is
// free.
//
// [aycoder.Usage] counts each input token once: Input excludes the tokens that were read from a
// cache or written to one. If a model has no separate price for cached tokens, they are priced
// like other input tokens. Prices are those of a standard request. Batches, priority requests,
// data that stays in a region, caches that live longer than the default, searches and other tools
// of the provider cost more or less. A price that depends on the time of day is that of the most
// expensive hour.
//
// # Names
//
// [Catalog.Lookup] finds a model by all names that its provider gives it: with a date, as a
// resource ("models/…", "publishers/…/models/…", an ARN), with the tag "latest" or a quantisation
// (Ollama). Lookup does not guess. A name that is merely similar to that of a model is unknown,
// and a "-mini" model is never mistaken for the larger one. If the price of a Bedrock model in a
// region is not known, the model is returned without a price. So are models on OpenRouter whose
// price depends on the company that hosts them. Deployments on Azure are named by their owners,
// and are therefore always unknown.
//
// The name of a provider is the one that [aycoder.ModelNamer] returns. The same model costs
// different amounts at different providers, so Lookup always needs the provider.
//
// # Your own data
//
// [Parse] reads another file in the same format, which replaces the built-in data. [Catalog.With]
// adds or replaces single models. Both return a new catalog. A catalog never changes, and is safe
// for concurrent use.
//
//	{"providers": [{
//		"provider": "acme", "date": "2026-11-21", "sources": ["https://acme.example/prices"],
//		"models": [{
//			"model": "acme-1", "names": ["acme-latest"],
//			"context": 200000, "max_output": 32000, "tools": true, "images": true,
//			"price": {"input": 1, "output": 4, "cache_read": 0.1,
//				"long_from": 100000, "long": {"input": 2, "output": 8, "cache_read": 0.2}}
//		}]
//	}]}
//
// A model has the fields of [aycoder.ModelInfo] and the field "names", which lists its other
// names. Only "provider" and "model" are required; a field that is omitted is unknown.
//
// # Clients
//
// [Catalog.Middleware] adds the data to a client, which thereby becomes an [aycoder.ModelInfoer].
// It does not change requests: the bytes on the wire are the same as without it. In particular,
// it does not set [aycoder.Request.MaxTokens]. The longest answer that a model can give is a bad
// limit for most requests. Some providers charge all of it against a rate limit or a balance in
// advance, and some refuse the request if the prompt and that answer together exceed the context.
// A limit that the host sets is not reduced either, since the data may be older than the model's
// limit.
package catalog
