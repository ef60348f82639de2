// Package tokens counts the tokens of requests without asking anybody, well enough to fill a context
// window.
//
// Only a provider knows how many tokens a request has, and for most models it does not publish the
// vocabulary. To ask it takes a request over the network. A [Counter] estimates instead: it reads 100
// megabytes or more in a second, remembers what it counted, and corrects itself by the usage that the
// model reports. For each estimate, it also says how far the true number may be above it.
//
// # Texts
//
// [Estimate] counts a text without a vocabulary. It splits the text much like tokenizers do, into
// words, numbers, marks and white space, and adds up what such pieces cost on average. The costs were
// fitted to the vocabularies o200k, cl100k, Llama 3 and Gemma 2, with programs in 20 languages,
// markup, the output of commands, and prose in 21 languages.
//
//	n := tokens.Estimate("func main() { fmt.Println(\"hello\") }")
//
// # Requests
//
// A counter estimates whole requests: the system prompt, tools with their schemas, and messages with
// all their parts. Images count by the number of their pixels, as the provider's documentation says.
// The result has a [Breakdown], for example to show what fills the window.
//
//	counter := tokens.New()
//	model := tokens.ModelOf(client, req.Model)
//	n := counter.Estimate(model, req)
//	fmt.Println(n.Tokens, n.Max(), n.Breakdown.Files)
//
// A message is read once, since messages never change. So the next request of a long conversation
// costs as much as its new messages, and the comparison of a pointer for each old one. The counter
// keeps only the messages of the last request alive.
//
// # Corrections
//
// After each answer, tell the counter which usage was reported. It then scales further estimates for
// this model. The scale is not a single number: the counter learns separately about words, marks,
// white space, numbers, accents, other alphabets, and all else. A model that turned out to be
// expensive for Chinese is not therefore taken to be so for English.
//
//	counter.Observe(model, req, done.Usage)
//
// [Count].Margin is the factor by which the true number may still exceed the estimate: 1 + twice the
// standard deviation. It is 1.35 for English or code and a model that is not known, and falls to
// 1.05 when many requests were observed, for many texts: a single one stays less certain, with 1.15 to
// 1.2 for an output of 5 kB. It is larger for a request with much text of a kind that the model has not
// counted yet. A budget is safe if [Count.Max] fits.
//
// # Exact counts
//
// If the client is a [TokenCounter], it can count exactly, but it takes time. A [Turn] asks it only
// if the estimate cannot tell whether a request fits, and at most once. If that fails, the
// estimate with its margin decides.
//
//	turn := counter.Turn(client)
//	n, ok := turn.Fits(ctx, req, budget)
package tokens
